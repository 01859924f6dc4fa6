package live

import (
	"strings"
	"testing"
)

// What is wrong with a message is said in words of the protocol.
func TestBadMessagesAreAnsweredInTheProtocolsWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:                       "can't be a JSON array",
		`7`:                        "can't be a JSON number",
		`{"op":1}`:                 `"op" can't be a JSON number`,
		`{"op":"subscribe","x":1}`: `there is no member "x"`,
		`{`:                        "is not JSON",
		``:                         "is not JSON",
	} {
		_, err := parseOp([]byte(text))
		if err == nil {
			t.Fatalf("%s was taken", text)
		}
		if s := err.Error(); !strings.Contains(s, want) || !strings.Contains(s, `send one JSON object such as {"op":"subscribe"`) ||
			strings.Contains(s, "Go ") || strings.Contains(s, "live.") || len(s) > 200 {
			t.Errorf("%s: %s", text, s)
		}
	}
}
