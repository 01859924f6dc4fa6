package engine

import (
	"encoding/binary"
	"maps"
	"slices"

	"tidemark/storage/row"
	"tidemark/windows"
)

// stateKey is the key of a leaf, or of an extra state of a window: the group's key, a byte that tells
// which, and the number of the pane or window so that bytes compare as numbers do.
func (p *panes) stateKey(extra bool, number int64, key string) []byte {
	dst := make([]byte, 0, 2+len(key)+9)
	dst = append(append(dst, spacePane, p.a.id), key...)
	dst = append(dst, bit(extra))
	return binary.BigEndian.AppendUint64(dst, uint64(number)^1<<63)
}

// A leaf or an extra state: format, flags (1 changed since provisional rows were given out), how many
// rows are in it, and the state of each call. Its place in the index has the number of the leaf before
// a leaf.
func (p *panes) save(w *writes) {
	for _, key := range p.gone {
		w.drop(key)
	}
	p.gone = p.gone[:0]
	p.cold.saved()
	write := func(of paneOf, slot int32, rows int64, dirty bool) {
		dst := []byte{stateFormat, bit(dirty)}
		dst = binary.AppendVarint(dst, rows)
		name := p.stateKey(of.extra, of.pane, p.groups[of.group].key)
		w.set(name, p.a.encode(w, slot, name, dst))
	}
	list := func(of paneOf, value []byte) {
		w.set(p.cold.indexKey(of.pane, indexed(of.extra, p.groups[of.group].key)), value)
	}
	for _, of := range p.changed {
		if of.extra {
			if x := p.extras[of.pane][of.group]; x != nil && x.changed {
				write(of, x.slot, x.rows, false)
				if !x.saved && p.a.e.store != nil {
					list(of, []byte{})
				}
				x.changed, x.saved = false, true
			}
			continue
		}
		group := &p.groups[of.group]
		at := group.search(of.pane)
		if at == len(group.leaves) || group.leaves[at].pane != of.pane || !group.leaves[at].changed {
			continue
		}
		l := &group.leaves[at]
		write(of, l.slot, p.a.groups[l.slot].rows, l.dirty)
		if l.unlisted && p.a.e.store != nil {
			before := []byte{}
			if at > 0 {
				before = binary.BigEndian.AppendUint64(before, uint64(group.leaves[at-1].pane))
			}
			list(of, before)
		}
		l.changed, l.saved, l.unlisted = false, true, false
	}
	p.changed = p.changed[:0]
}

func (p *panes) load(key, value []byte) error {
	g, err := p.restore(key, value)
	if err != nil {
		return err
	}
	if extra, number := paneNumber(key); !extra {
		p.list(g, number)
	}
	return nil
}

// restore sets a leaf or an extra that was saved.
func (p *panes) restore(key, value []byte) (g int32, err error) {
	if len(key) < 9 {
		return -1, errState
	}
	extra, number := paneNumber(key)
	name := key[:len(key)-9]
	g, ok := p.table.get(name)
	if !ok {
		g = p.newGroup(string(name))
		rest := name
		for _, v := range p.keyCols.cols {
			one := row.NewVector(v.Type, 1)
			if rest, err = row.DecodeKey(v.Type, rest, one); err != nil {
				return g, err
			}
			setValue(v, int(g), one, 0)
		}
	}
	r := reader{src: value}
	r.format()
	dirty := r.byte()&1 != 0
	rows := r.varint()
	if r.bad {
		return g, errState
	}
	var slot int32
	if extra {
		x := p.extra(number, g)
		x.rows, x.saved = rows, true
		slot = x.slot
	} else {
		at := p.groups[g].search(number)
		l := p.insert(g, at, number)
		l.dirty, l.saved = dirty, true
		slot = l.slot
		p.a.groups[slot].rows = rows
		if dirty {
			p.soil(g)
		}
	}
	if r.src, err = p.a.decode(slot, p.stateKey(extra, number, p.groups[g].key), r.src); err != nil {
		return g, err
	}
	return g, r.end()
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
