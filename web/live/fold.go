package live

import (
	"bytes"
	"strconv"

	"tidemark/windows"
)

// change is a row that appears or is withdrawn, encoded once.
type change struct {
	op       int8
	key      string
	row      []byte // JSON
	status   windows.Status
	revision int32
}

// append writes the change as clients get it. The withdrawal of a provisional row has no status
// and no revision (C3).
func (c change) append(b []byte) []byte {
	if c.op > 0 {
		b = append(b, `{"op":"+","row":`...)
	} else {
		b = append(b, `{"op":"-","row":`...)
	}
	b = append(b, c.row...)
	if c.status != windows.None {
		b = append(append(append(b, `,"status":"`...), c.status.String()...), '"')
		b = strconv.AppendInt(append(b, `,"revision":`...), int64(c.revision), 10)
	}
	return append(b, '}')
}

// folder adds up the changes of several epochs: of each row key the row that was there before,
// withdrawn, and the row that is there now (C6).
type folder struct {
	keys  []string // in the order in which they changed first
	rows  map[string]*folded
	taken int // changes that count against the size of a frame
	seen  int
}

type folded struct{ minus, plus *change }

func (f *folder) add(changes []change) {
	if f.rows == nil {
		f.rows = map[string]*folded{}
	}
	f.taken += len(changes)
	f.seen += len(changes)
	for i := range changes {
		c := &changes[i]
		n := f.rows[c.key]
		if n == nil {
			n = &folded{}
			f.rows[c.key] = n
			f.keys = append(f.keys, c.key)
		}
		switch {
		case c.op > 0:
			n.plus = c
		case n.plus == nil:
			n.minus = c
		default: // what this frame would have brought is gone again
			n.plus = nil
			if n.minus != nil { // the row from before the frame: gone, with the newest revision
				n.minus.status, n.minus.revision = c.status, c.revision
			}
		}
	}
}

// changes are the sum. A provisional row that is as it was cancels out.
func (f *folder) changes() []change {
	var out []change
	for _, key := range f.keys {
		n := f.rows[key]
		if n.minus != nil && n.plus != nil && n.minus.status == windows.None && n.plus.status == windows.Provisional &&
			bytes.Equal(n.minus.row, n.plus.row) {
			continue
		}
		if n.minus != nil {
			out = append(out, *n.minus)
		}
		if n.plus != nil {
			out = append(out, *n.plus)
		}
	}
	return out
}
