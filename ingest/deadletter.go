package ingest

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// DeadLetter is an input that could not be used, as users see it.
type DeadLetter struct {
	ID     string `json:"id"`
	Origin string `json:"origin"`
	Group  string `json:"group,omitempty"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Raw is the input as text; where that is no UTF-8, RawBase64 is exact.
	Raw       string        `json:"raw"`
	RawBase64 string        `json:"raw_base64,omitempty"`
	Place     *stream.Place `json:"place,omitempty"`
	FirstSeen string        `json:"first_seen"`
	Attempts  int           `json:"attempts"`
}

// DeadLetters is a page of them, oldest first.
type DeadLetters struct {
	Items []DeadLetter `json:"items"`
	Next  *string      `json:"next"`
}

// maxPage bounds a page of dead letters.
const maxPage = 1000

// stream finds a stream that must exist.
func (in *Ingester) stream(name string) (*stream.Stream, error) {
	if err := catalog.CheckName(catalog.Stream, name); err != nil {
		return nil, err
	}
	return in.streams.Get(name)
}

// DeadLetters lists a stream's dead letters. limit 0 is 100; cursor is "" or the last page's Next.
func (in *Ingester) DeadLetters(name string, limit int, cursor string) (*DeadLetters, error) {
	s, err := in.stream(name)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = 100
	}
	if limit < 1 || limit > maxPage {
		return nil, problem.New(400, "bad_limit", "limit is %d", limit).WithHint("it can be 1 to %d", maxPage)
	}
	var after uint64
	if cursor != "" {
		var ok bool
		if after, ok = readCursor(cursor, s.ID); !ok {
			return nil, problem.New(400, "bad_cursor", "the cursor is not one of this list").WithHint("take it from the member next of the page before, or leave it out")
		}
	}
	letters, err := in.log.DeadLetters(s.ID, after, limit+1)
	if err != nil {
		return nil, err
	}
	page := &DeadLetters{Items: []DeadLetter{}}
	for i, l := range letters {
		if i == limit {
			next := cursorAfter(letters[i-1].Number, s.ID)
			page.Next = &next
			break
		}
		page.Items = append(page.Items, shown(l))
	}
	return page, nil
}

func shown(l stream.DeadLetter) DeadLetter {
	d := DeadLetter{
		ID: strconv.FormatUint(l.Number, 10), Origin: l.Origin, Group: l.Group, Code: l.Code, Reason: l.Reason, Place: l.Place,
		FirstSeen: string(row.FormatTimestamp(nil, l.FirstSeen)), Attempts: l.Attempts, Raw: string(l.Raw),
	}
	if !utf8.Valid(l.Raw) {
		d.Raw = strings.ToValidUTF8(d.Raw, "�")
		d.RawBase64 = base64.StdEncoding.EncodeToString(l.Raw)
	}
	return d
}

// The bytes of a cursor: "dl", the stream, the number behind which the page begins.
func cursorAfter(number uint64, id stream.ID) string {
	b := binary.BigEndian.AppendUint64([]byte("dl"), uint64(id))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, number))
}

func readCursor(text string, id stream.ID) (after uint64, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 18 || string(b[:2]) != "dl" || binary.BigEndian.Uint64(b[2:]) != uint64(id) {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[10:]), true
}

// deadLetter finds one by its id.
func (in *Ingester) deadLetter(s *stream.Stream, id string) (stream.DeadLetter, error) {
	unknown := problem.New(404, "unknown_dead_letter", "stream %s has no dead letter %.40q", s.Name, id).
		WithHint("GET /v1/streams/%s/dead_letters lists them; it may have been replayed or deleted", s.Name)
	number, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return stream.DeadLetter{}, unknown
	}
	var after uint64
	if number > 0 {
		after = number - 1
	}
	letters, err := in.log.DeadLetters(s.ID, after, 1)
	if err != nil {
		return stream.DeadLetter{}, err
	}
	if len(letters) == 0 || letters[0].Number != number {
		return stream.DeadLetter{}, unknown
	}
	return letters[0], nil
}

// DropDeadLetter removes a dead letter for good.
func (in *Ingester) DropDeadLetter(ctx context.Context, name, id string) error {
	s, err := in.stream(name)
	if err != nil {
		return err
	}
	l, err := in.deadLetter(s, id)
	if err != nil {
		return err
	}
	return in.log.DropDeadLetter(ctx, s.ID, l.Number)
}

// Replay appends the event of a dead letter, or the corrected one in its place, and removes the
// dead letter. An event that still can't be used is a problem 422 and changes nothing. A replay
// that a crash cut in two is finished by the next one: the event is appended once.
func (in *Ingester) Replay(ctx context.Context, name, id string, corrected []byte) (*Answer, error) {
	s, err := in.stream(name)
	if err != nil {
		return nil, err
	}
	l, err := in.deadLetter(s, id)
	if err != nil {
		return nil, err
	}
	if l.Origin != "ingest" {
		return nil, problem.New(422, "not_ingest", "dead letter %s is of the group %s, its event is in the log", id, l.Group).
			WithHint("seek the group to %v to have it delivered again", l.Place)
	}
	event := l.Raw
	if len(corrected) > 0 {
		event = corrected
	}
	r := Request{Stream: name, Body: event, Strict: true, IdempotencyKey: "replay " + id, Scope: "tidemark: dead letters"}
	was, done, err := in.log.Remembered(kept(r, s.ID))
	if err != nil {
		return nil, err
	}
	a := &Answer{Status: 200, kept: was.Body}
	if !done {
		if a, err = in.Post(ctx, r); err != nil {
			return nil, err
		}
	}
	return a, in.log.DropDeadLetter(ctx, s.ID, l.Number)
}
