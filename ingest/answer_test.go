package ingest

import (
	"encoding/json"
	"testing"

	"tidemark/stream"
)

// TestGoodAnswerIsWhatReflectionWrites: answers without errors are written by hand.
func TestGoodAnswerIsWhatReflectionWrites(t *testing.T) {
	t.Parallel()
	for _, a := range []*Answer{
		{Errors: []EventError{}, Appended: []Appended{}, Receipt: "abc"},
		{Accepted: 3, Duplicates: 0, DeadLetters: 7, Errors: []EventError{}, Receipt: "x", Appended: []Appended{
			{Range: stream.Range{Partition: 0, First: 10, Last: 12}}, {"clicks", stream.Range{Partition: 7, First: 1 << 40, Last: 1 << 41}},
		}},
	} {
		want, err := json.Marshal(a)
		if err != nil || string(a.JSON()) != string(want) {
			t.Errorf("%s\nwant %s, %v", a.JSON(), want, err)
		}
	}
}
