package engine

import (
	"encoding/binary"

	"tidemark/windows/agg"
)

// Here is how a state that grows with its input is saved: the set of a count(DISTINCT), the values of
// a median or a list. Where such a state of a group, or of a pane of one, is small, it stands in the
// group's entry. A large one lies in pieces under keys of their own: what it was when it became large,
// and behind that what changed in each epoch. So an epoch writes what changed, however large the rest.
//
//	K6  The pieces of a state, added up from the first to the last that its group's entry names, are
//	    the state; under its keys there are no others.
//
// Pieces of a multiset may tell of the same value again and again. When they tell twice as much as
// there is, or are very many, they are written anew as one: over time that adds about as much
// again as what changed.

const (
	// smallState is how many entries a state has at most that stands in its group's entry, where the
	// Config says nothing else.
	smallState = 128
	// mostPieces is how many pieces a state lies in at most.
	mostPieces = 1 << 14
	// inPieces stands where a state's version would stand: the numbers of its pieces follow.
	inPieces = 0
)

// pieceOf is the state of one column in a slot of an aggregate.
type pieceOf struct{ slot, col int32 }

// pieces are those of a state: from ≤ number < to, with how many entries there are in all of them.
type pieces struct {
	from, to uint32
	entries  int64
}

// piecesKey is what the keys of the pieces of an entry begin with; name is the entry's key.
func piecesKey(name []byte) []byte {
	dst := make([]byte, 0, len(name)+7)
	return append(append(dst, spacePiece, name[1], name[0]), name[2:]...)
}

func pieceKey(name []byte, col int, number uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(piecesKey(name), uint16(col)), number)
}

// encode appends the states in a slot, whose entry has the key name.
func (a *aggregate) encode(w *writes, slot int32, name, dst []byte) []byte {
	// A group of panes is filled anew when it changes.
	whole := a.e.store == nil || a.panes != nil && name[0] == spaceGroup
	for i, col := range a.cols {
		if d := a.diffs[i]; d != nil && !whole {
			dst = a.encodeLarge(w, d, pieceOf{slot, int32(i)}, name, dst)
			continue
		}
		dst = col.Encode(slot, dst)
	}
	return dst
}

func (a *aggregate) encodeLarge(w *writes, d agg.Differential, of pieceOf, name, dst []byte) []byte {
	n, small := int64(d.Entries(of.slot)), int64(a.e.cfg.SmallState)
	p, large := a.pieces[of]
	anew := n > small
	if large {
		var more int
		a.piece, more = d.EncodeNoted(of.slot, a.piece[:0])
		anew = p.entries+int64(more) > 2*n+small || p.to-p.from >= mostPieces
		if more > 0 && !anew {
			w.set(pieceKey(name, int(of.col), p.to), w.copied(a.piece))
			p.to++
			p.entries += int64(more)
			a.pieces[of] = p
		}
	}
	if anew {
		for ; p.from < p.to; p.from++ {
			w.drop(pieceKey(name, int(of.col), p.from))
		}
		if large = n > small/2; large {
			w.set(pieceKey(name, int(of.col), p.to), d.Encode(of.slot, nil))
			p.to++
			p.entries = n
			a.pieces[of] = p
		} else {
			delete(a.pieces, of)
		}
		d.Note(of.slot, large)
	}
	if !large {
		return d.Encode(of.slot, dst)
	}
	dst = append(dst, inPieces)
	for _, x := range []int64{int64(p.from), int64(p.to), p.entries} {
		dst = binary.AppendVarint(dst, x)
	}
	return dst
}

// decode reads what encode wrote and returns the rest.
func (a *aggregate) decode(slot int32, name, src []byte) (rest []byte, err error) {
	for i, col := range a.cols {
		if len(src) > 0 && src[0] == inPieces {
			src, err = a.decodeLarge(pieceOf{slot, int32(i)}, name, src[1:])
		} else {
			src, err = col.Decode(slot, src)
		}
		if err != nil {
			return nil, err
		}
	}
	return src, nil
}

func (a *aggregate) decodeLarge(of pieceOf, name, src []byte) (rest []byte, err error) {
	r := reader{src: src}
	p := pieces{from: uint32(r.varint()), to: uint32(r.varint()), entries: r.varint()}
	d := a.diffs[of.col]
	if r.bad || d == nil || a.e.store == nil {
		return nil, errState
	}
	d.Reset(of.slot)
	next := p.from
	failed := a.e.store.Scan(pieceKey(name, int(of.col), p.from), pieceKey(name, int(of.col), p.to), func(_, value []byte) bool {
		next++
		var behind []byte
		if behind, err = d.DecodeMore(of.slot, value); err == nil && len(behind) > 0 {
			err = errState
		}
		return err == nil
	})
	switch {
	case failed != nil:
		return nil, failed
	case err == nil && next != p.to:
		err = errState
	}
	if err != nil {
		return nil, err
	}
	d.Note(of.slot, true)
	a.pieces[of] = p
	return r.src, nil
}

// leavePieces forgets where the states of a slot lie, which stay in the store.
func (a *aggregate) leavePieces(slot int32) {
	if len(a.pieces) == 0 {
		return
	}
	for i := range a.cols {
		delete(a.pieces, pieceOf{slot, int32(i)})
	}
}

// losePieces takes the states of a slot, whose entry has the key name, out of the store with the next
// Take. If the slot goes on under another key they are written there.
func (a *aggregate) losePieces(slot int32, name []byte) {
	if len(a.pieces) == 0 {
		return
	}
	for i := range a.cols {
		of := pieceOf{slot, int32(i)}
		p, large := a.pieces[of]
		if !large {
			continue
		}
		for ; p.from < p.to; p.from++ {
			a.lostPieces = append(a.lostPieces, pieceKey(name, i, p.from))
		}
		delete(a.pieces, of)
		a.diffs[i].Note(slot, false)
	}
}

// loseColdPieces is losePieces for an entry that is in the store alone.
func (a *aggregate) loseColdPieces(name []byte) {
	if !a.differs {
		return
	}
	from := piecesKey(name)
	to := append(from[:len(from):len(from)], 0xff, 0xff) // there is no such column
	a.e.breaks(a.e.store.Scan(from, to, func(key, _ []byte) bool {
		a.lostPieces = append(a.lostPieces, append([]byte{}, key...))
		return true
	}))
}

func (a *aggregate) saveLostPieces(w *writes) {
	for _, key := range a.lostPieces {
		w.drop(key)
	}
	a.lostPieces = a.lostPieces[:0]
}
