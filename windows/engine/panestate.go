package engine

import (
	"encoding/binary"
	"maps"
	"slices"

	"tidemark/storage/row"
	"tidemark/windows"
)

// stateKey is the key of a leaf, or of an extra state of a window: a byte that tells which, the
// number of the pane or window so that bytes compare as numbers do, and the group's key.
func (p *panes) stateKey(extra bool, number int64, key string) []byte {
	dst := []byte{spacePane, p.a.id, bit(extra)}
	dst = binary.BigEndian.AppendUint64(dst, uint64(number)^1<<63)
	return append(dst, key...)
}

// A leaf or an extra state: format, flags (1 changed since provisional rows were given out), how many
// rows are in it, and the state of each call.
func (p *panes) save(w *writes) {
	for _, key := range p.gone {
		w.drop(key)
	}
	p.gone = p.gone[:0]
	write := func(of paneOf, slot int32, rows int64, dirty bool) {
		dst := []byte{stateFormat, bit(dirty)}
		dst = binary.AppendVarint(dst, rows)
		for _, col := range p.a.cols {
			dst = col.Encode(slot, dst)
		}
		w.set(p.stateKey(of.extra, of.pane, p.groups[of.group].key), dst)
	}
	for _, of := range p.changed {
		if of.extra {
			if x := p.extras[of.pane][of.group]; x != nil && x.changed {
				x.changed, x.saved = false, true
				write(of, x.slot, x.rows, false)
			}
			continue
		}
		group := &p.groups[of.group]
		at := group.search(of.pane)
		if at == len(group.leaves) || group.leaves[at].pane != of.pane || !group.leaves[at].changed {
			continue
		}
		l := &group.leaves[at]
		l.changed, l.saved = false, true
		write(of, l.slot, p.a.groups[l.slot].rows, l.dirty)
	}
	p.changed = p.changed[:0]
}

func (p *panes) load(key, value []byte) error {
	if len(key) < 9 {
		return errState
	}
	number := int64(binary.BigEndian.Uint64(key[1:]) ^ 1<<63)
	name := key[9:]
	g, ok := p.table.get(name)
	if !ok {
		g = p.newGroup(string(name))
		rest := name
		for _, v := range p.keyCols.cols {
			one := row.NewVector(v.Type, 1)
			var err error
			if rest, err = row.DecodeKey(v.Type, rest, one); err != nil {
				return err
			}
			setValue(v, int(g), one, 0)
		}
	}
	r := reader{src: value}
	r.format()
	dirty := r.byte()&1 != 0
	rows := r.varint()
	if r.bad {
		return errState
	}
	var slot int32
	if key[0] == 1 {
		x := p.extra(number, g)
		x.rows, x.saved = rows, true
		slot = x.slot
	} else {
		l := p.leaf(g, number)
		l.dirty, l.saved = dirty, true
		slot = l.slot
		p.a.groups[slot].rows = rows
		if dirty {
			p.soil(g)
		}
	}
	for _, col := range p.a.cols {
		var err error
		if r.src, err = col.Decode(slot, r.src); err != nil {
			return err
		}
	}
	return r.end()
}

// loaded puts the panes where they were: the watermark is known now.
func (p *panes) loaded() {
	p.closed = p.a.e.wm
	if p.a.e.wm == windows.NoWatermark {
		return
	}
	p.swept, p.begun = p.lastFinal(p.a.e.wm), true
	p.ahead, p.closing = nil, nil
	was := p.at
	p.at = make(map[int64][]int32, len(was))
	for _, pane := range slices.Sorted(maps.Keys(was)) {
		for _, g := range was[pane] {
			p.list(g, pane)
		}
	}
}
