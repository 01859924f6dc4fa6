package runtime

import (
	"encoding/json"
	"strconv"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// AsOf says what an answer is the answer to.
type AsOf struct {
	// Watermark is the view's, or windows.NoWatermark.
	Watermark windows.Micros
	// Offsets holds for each stream beneath the next offset of each partition.
	Offsets map[string][]stream.Offset
	// ViewVersion counts the definitions of the view that gave other rows.
	ViewVersion int
	// Oldest: rows with an earlier time have expired (R3); nil: none has.
	Oldest *windows.Micros
}

type asOfJSON struct {
	Watermark   *string                    `json:"watermark"`
	Offsets     map[string][]stream.Offset `json:"offsets"`
	ViewVersion int                        `json:"view_version"`
	Oldest      *string                    `json:"oldest,omitempty"`
}

// MarshalJSON writes the as_of of every answer and frame.
func (a AsOf) MarshalJSON() ([]byte, error) {
	j := asOfJSON{Watermark: instant(a.Watermark), Offsets: a.Offsets, ViewVersion: a.ViewVersion}
	if a.Oldest != nil {
		j.Oldest = instant(*a.Oldest)
	}
	if j.Offsets == nil {
		j.Offsets = map[string][]stream.Offset{}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads it back.
func (a *AsOf) UnmarshalJSON(text []byte) error {
	var j asOfJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*a = AsOf{Watermark: windows.NoWatermark, Offsets: j.Offsets, ViewVersion: j.ViewVersion}
	if j.Watermark != nil {
		at, err := row.ParseTime([]byte(*j.Watermark))
		if err != nil {
			return err
		}
		a.Watermark = at
	}
	if j.Oldest != nil {
		at, err := row.ParseTime([]byte(*j.Oldest))
		if err != nil {
			return err
		}
		a.Oldest = &at
	}
	return nil
}

// instant is a time as users read it; nil where there is none.
func instant(at windows.Micros) *string {
	if at == windows.NoWatermark || at == windows.Never {
		return nil
	}
	text := string(row.FormatTimestamp(nil, at))
	return &text
}

// clone returns a copy that shares nothing.
func (a AsOf) clone() AsOf {
	offsets := make(map[string][]stream.Offset, len(a.Offsets))
	for name, o := range a.Offsets {
		offsets[name] = append([]stream.Offset{}, o...)
	}
	a.Offsets = offsets
	return a
}

// take notes that an entry of a stream is behind the answer.
func (a *AsOf) take(name string, e stream.Entry) {
	o := a.Offsets[name]
	grow := func(n int) {
		for len(o) < n {
			o = append(o, 0)
		}
	}
	switch {
	case e.Batch != nil:
		grow(int(e.Batch.Partition) + 1)
		o[e.Batch.Partition] = e.Batch.End()
	case e.Control.Kind == stream.Partitions:
		grow(int(e.Control.Value))
	}
	a.Offsets[name] = o
}

// Gap says that a position is gone: it is of another log, or the change stream no longer reaches
// back to it. A snapshot, or Oldest, is where to go on.
type Gap struct {
	// Oldest is the first position from which the change stream can be read.
	Oldest stream.Position
}

func (g *Gap) Error() string {
	return "the position is gone: the oldest one is " + g.Oldest.String() +
		" (sequence " + strconv.FormatInt(int64(g.Oldest.Sequence), 10) + ")"
}
