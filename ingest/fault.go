package ingest

// Codes of dead letters.
const (
	codeBadJSON      = "bad_json"      // a line that is no JSON
	codeNoObject     = "not_an_object" // an event is an object
	codeTooLarge     = "too_large"
	codeTooDeep      = "too_deep"
	codeBadUnicode   = "bad_unicode"
	codeBadNumber    = "bad_number"
	codeDuplicateKey = "duplicate_key"
	codeBadTime      = "bad_time"
	codeTooFarAhead  = "too_far_ahead"
	codeBadValue     = "bad_value"
)

// fault is why an event can't be used. A nil *fault is none.
type fault struct {
	code, reason string
	// misfit: a value does not fit the column that was inferred for it; a wider one may.
	misfit bool
}

// errSyntax is the fault of what the decoder could not read; the scanner says where and why.
var errSyntax = &fault{code: codeBadJSON}

// badEvent is an event that becomes a dead letter.
type badEvent struct {
	index int
	fault
	raw []byte
}
