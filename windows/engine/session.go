package engine

import (
	"cmp"
	"encoding/binary"
	"slices"

	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/expr"
	"tidemark/windows/query"
)

// sessions gives each event the session that it belongs to, and judges it by its own window and
// every session that it would join (L3).
//
// A session's bounds are not known before its last event, so rows carry the session's number in
// place of window_start and window_end. An aggregate behind it groups by that number: a session
// that grows moves no row, and two that become one merge their groups. The bounds are put in when
// rows are given out.
//
// What the WHERE of the SELECT removes is part of its session all the same, as in the batch
// answer: the function comes before the WHERE. It is never reported late (L1).
type sessions struct {
	e       *Engine
	id      byte
	number  int
	kind    windows.Sessions
	timeCol int
	keys    []int
	where   *expr.Expr
	unsure  query.Unsure
	outs    targets
	options Function
	// One of the two is behind it: an aggregate that groups by the session, or rows that are kept.
	agg  *aggregate
	rows *sessionRows

	table   map[string][]int32 // key → its sessions, by start
	all     []session
	free    []int32
	time    timeline
	changed []string // keys to be saved
	gone    []lost   // sessions
	cold    cold
	hand    int // as in marks
	// keyBytes is what the keys of all sessions take.
	keyBytes int64

	// The batch in work.
	in      chunk // all rows, before the WHERE
	given   chunk // the rows that pass, with the session's number as both bounds
	pos     int
	start   *row.Vector // shared by both bounds
	finalAt []windows.Micros
	passes  row.Bitmap
	late    []lateNote
	moved   []int32 // sessions that changed in this step
	merged  []int32 // sessions that became part of another in this step

	errs   expr.Errors
	keyBuf []byte
	near   []int32
}

type session struct {
	key        string
	id         int32 // its number within its key, for as long as it is in the store
	start, end windows.Micros
	slots      []int32 // groups of the aggregate, or rows
	into       int32   // the session that this one became part of, in the step in work
	live       bool
	moved      bool
	changed    bool // its key is in changed
	used       bool // since the clock's hand passed it
	listed     listing
}

func (o *sessions) take(c *chunk) {
	o.in, o.pos = *c, 0
	out := *c
	o.start.Resize(c.Len)
	clear(o.start.I64)
	if cap(o.finalAt) < c.Len {
		o.finalAt = make([]windows.Micros, c.Len)
	}
	o.finalAt = o.finalAt[:c.Len]
	out.Cols = append(slices.Clip(c.Cols), o.start, o.start)
	out.f = &frame{up: c.f, batch: true, origin: c.f.origin, finalAt: o.finalAt}
	if o.where != nil {
		own := out
		if o.rows != nil {
			own = *o.rows.own(&out)
		}
		sel := o.e.keep(o.where, &own, &o.errs, nil)
		o.passes = o.passes[:0]
		for _, i := range sel {
			o.passes.Set(int(i))
		}
		if o.rows == nil || !o.rows.filters {
			out.sel = sel
		} else if o.unsure.Alone != nil {
			out.sel = o.e.keep(o.unsure.Alone, &own, &o.errs, nil)
		}
	}
	o.given = out
	o.outs.send(&out)
}

// judge asks for cuts before late events: which sessions they touch is seen when they are fed.
func (o *sessions) judge() {
	if o.in.f == nil {
		return
	}
	times := o.in.Cols[o.timeCol].I64
	o.in.each(func(i int) {
		if ev := o.in.f.event(i); times[i] < o.e.met[ev] && !o.e.failed(ev) {
			o.e.cuts = append(o.e.cuts, cut{event: ev, finalAt: windows.AtOnce})
		}
	})
}

// resolve finds the session of each row of the events before to that have not been looked at.
func (o *sessions) resolve(to int) {
	if o.in.f == nil {
		return
	}
	first := o.pos
	for n := o.in.rows(); o.pos < n; o.pos++ {
		i := o.in.row(o.pos)
		ev := o.in.f.event(i)
		if ev >= to {
			break
		}
		if o.e.failed(ev) || o.e.anyRefused && o.in.f.wasRefused(i) {
			continue
		}
		o.one(i, ev)
	}
	for k := first; k < o.pos; k++ {
		i := o.in.row(k)
		x := o.root(int32(o.start.I64[i]))
		o.start.I64[i] = int64(x)
		if int(x) < len(o.all) {
			o.finalAt[i] = windows.Session.FinalAt(o.all[x].end)
		}
	}
	for _, x := range o.moved {
		if s := &o.all[x]; s.live {
			s.moved = false
			o.time.add(windows.Session.FinalAt(s.end), x, o.e.wm)
			if o.agg != nil {
				o.agg.sessionMoved(s)
			} else {
				o.rows.touch(x)
			}
		}
	}
	o.moved = o.moved[:0]
	o.free = append(o.free, o.merged...)
	o.merged = o.merged[:0]
}

func (o *sessions) root(x int32) int32 {
	for int(x) < len(o.all) && !o.all[x].live && o.all[x].into != x {
		x = o.all[x].into
	}
	return x
}

// one judges one event and puts it into its session.
func (o *sessions) one(i, ev int) {
	t, met, lateness := o.in.Cols[o.timeCol].I64[i], o.e.met[ev], o.options.AllowedLateness
	start, end := o.kind.Own(t)
	o.keyBuf = row.AppendRowKey(o.keyBuf[:0], &o.in.Batch, o.keys, i)
	list := o.find(o.keyBuf)

	o.near = o.near[:0]
	closed := met > windows.Later(end, lateness)
	wasFinal := met > end
	for _, x := range list {
		s := &o.all[x]
		if met > windows.Later(s.end, lateness+o.kind.Gap) {
			continue // its bounds count as forgotten, whether they are or not
		}
		if o.kind.Joins(t, s.start, s.end) {
			o.near = append(o.near, x)
			closed = closed || met > windows.Later(s.end, lateness)
			wasFinal = wasFinal || met > s.end
		}
	}
	if t < met && (o.where == nil || o.passes.Get(i)) && (closed || wasFinal) && !o.options.Quiet {
		o.note(ev, start, end, met, closed)
	}
	if closed {
		if o.given.f.refused == nil {
			o.given.f.refused = make([]bool, o.in.Len)
		}
		o.given.f.refused[i] = true
		o.e.anyRefused = true
		return
	}
	if len(o.near) == 0 {
		x := o.open(list, start, end)
		at, _ := slices.BinarySearchFunc(list, start, func(x int32, t windows.Micros) int {
			return int(min(max(o.all[x].start-t, -1), 1))
		})
		o.table[o.all[x].key] = slices.Insert(list, at, x)
		o.start.I64[i] = int64(x)
		o.move(x)
		return
	}
	x := o.near[0]
	s := &o.all[x]
	s.used = true
	if start < s.start || end > s.end {
		s.start, s.end = min(s.start, start), max(s.end, end)
		o.move(x)
	}
	for _, y := range o.near[1:] {
		o.merge(x, y)
	}
	if len(o.near) > 1 {
		o.table[s.key] = slices.DeleteFunc(list, func(y int32) bool { return !o.all[y].live })
	}
	o.start.I64[i] = int64(x)
}

// note keeps what is to be told of a late event.
func (o *sessions) note(ev int, start, end, met windows.Micros, closed bool) {
	o.e.markLate(ev)
	n := lateNote{event: ev, taken: !closed, corrected: !closed}
	if closed {
		lateness := o.options.AllowedLateness
		if met > windows.Later(end, lateness) && o.givenOut(start) {
			n.refused = append(n.refused, Refusal{Function: o.number, Start: start, End: end})
		}
		for _, x := range o.near {
			if s := &o.all[x]; met > windows.Later(s.end, lateness) && (s.start != start || s.end != end) && o.givenOut(s.start) {
				n.refused = append(n.refused, Refusal{Function: o.number, Start: s.start, End: s.end})
			}
		}
	}
	if n.taken || len(n.refused) > 0 {
		o.late = append(o.late, n)
	}
}

// givenOut reports whether a session that begins at start is given out (R2).
func (o *sessions) givenOut(start windows.Micros) bool {
	return o.e.cfg.WindowsFrom == nil || start >= *o.e.cfg.WindowsFrom
}

// open makes a session of the key in work, with a number that no other of list, which are its sessions,
// has.
func (o *sessions) open(list []int32, start, end windows.Micros) int32 {
	key, id := "", int32(0)
	for _, x := range list {
		key, id = o.all[x].key, max(id, o.all[x].id+1)
	}
	if len(list) == 0 {
		key = string(o.keyBuf)
	}
	x := o.slot(key, id)
	o.all[x].start, o.all[x].end = start, end
	return x
}

func (o *sessions) slot(key string, id int32) int32 {
	var x int32
	if n := len(o.free); n > 0 {
		x = o.free[n-1]
		o.free = o.free[:n-1]
	} else {
		x = int32(len(o.all))
		o.all = append(o.all, session{})
	}
	o.all[x] = session{key: key, id: id, into: x, live: true, used: true}
	o.keyBytes += int64(len(key))
	return x
}

// vacate makes the slot of a session one of no session; into is the one that it became a part of.
func (o *sessions) vacate(x, into int32) {
	o.keyBytes -= int64(len(o.all[x].key))
	o.all[x] = session{into: into}
}

// drop notes that a session is no more.
func (o *sessions) drop(x, into int32) {
	if s := &o.all[x]; s.listed.in {
		o.gone = append(o.gone, lost{s.key, s.listed})
	}
	o.vacate(x, into)
}

// toSave notes that the sessions of a key are to be saved.
func (o *sessions) toSave(key string) {
	o.changed = append(o.changed, key)
	for _, x := range o.table[key] {
		o.all[x].changed = true
	}
}

// move notes that a session's bounds changed.
func (o *sessions) move(x int32) {
	if s := &o.all[x]; !s.moved {
		s.moved = true
		o.moved = append(o.moved, x)
		o.toSave(s.key)
	}
}

// merge makes session y a part of x.
func (o *sessions) merge(x, y int32) {
	s, p := &o.all[x], &o.all[y]
	s.start, s.end = min(s.start, p.start), max(s.end, p.end)
	o.move(x)
	if o.agg != nil {
		for _, slot := range slices.Clone(p.slots) {
			o.agg.mergeSession(slot, x)
		}
	} else {
		s.slots = append(s.slots, p.slots...)
	}
	o.drop(y, x)
	o.merged = append(o.merged, y)
}

func (o *sessions) outcomes() {
	for _, l := range o.late {
		n := o.e.note(l.event)
		n.refused = append(n.refused, l.refused...)
		n.taken = n.taken || l.taken
		n.corrected = n.corrected || l.corrected
	}
	// Late events of other functions may have been taken here, on time.
	if o.in.f == nil || len(o.e.lateEvents) == len(o.late) || o.options.Quiet {
		return
	}
	o.given.each(func(i int) {
		if o.where != nil && !o.passes.Get(i) {
			return // in its session, and not given out (L1)
		}
		if ev := o.given.f.event(i); o.e.late[ev] && !o.e.failed(ev) && !o.given.f.wasRefused(i) {
			o.e.note(ev).taken = true
		}
	})
}

func (o *sessions) done() {
	o.in, o.given, o.late = chunk{}, chunk{}, o.late[:0]
}

// forget drops the bounds that nobody needs: an event that could touch the session is refused by
// its own window from here on (L3).
func (o *sessions) forget(wm windows.Micros) {
	o.fetchClosed(wm)
	o.time.eachDue(wm, func(windows.Micros, []int32) {})
	o.time.eachClosed(wm, windows.Later(o.options.AllowedLateness, o.kind.Gap), func(at windows.Micros, xs []int32) {
		for _, x := range xs {
			s := &o.all[x]
			if !s.live || windows.Session.FinalAt(s.end) != at {
				continue
			}
			list := slices.DeleteFunc(o.table[s.key], func(y int32) bool { return y == x })
			if len(list) == 0 {
				delete(o.table, s.key)
				o.cold.drop(s.key)
			} else {
				o.table[s.key] = list
			}
			o.toSave(s.key)
			slots := s.slots
			s.slots = nil
			if o.rows != nil {
				o.rows.drop(slots)
			} else { // a view above may keep its state for longer, but no row comes into these any more
				for _, slot := range slots {
					o.agg.drop(slot)
				}
			}
			o.drop(x, x)
			o.free = append(o.free, x)
		}
	})
}

func (o *sessions) stateKey(key string) []byte {
	return append([]byte{spaceSession, o.id}, key...)
}

// The sessions of a key: format, then for each its number, start and end.
func (o *sessions) save(w *writes) {
	o.cold.unlist(w, o.gone, nil)
	o.gone = o.gone[:0]
	slices.Sort(o.changed)
	for _, key := range slices.Compact(o.changed) {
		list := o.table[key]
		if len(list) == 0 {
			w.drop(o.stateKey(key))
			continue
		}
		dst := append(w.value(), stateFormat)
		for _, x := range list {
			s := &o.all[x]
			s.changed = false
			dst = binary.AppendVarint(dst, int64(s.id))
			dst = binary.BigEndian.AppendUint64(dst, uint64(s.start))
			dst = binary.BigEndian.AppendUint64(dst, uint64(s.end))
			if o.e.store != nil {
				s.listed = o.cold.list(w, s.listed, windows.Session.FinalAt(s.end), key)
			}
		}
		w.set(o.stateKey(key), w.kept(dst))
	}
	o.changed = o.changed[:0]
}

// numbered is the session of a key with a number, to be loaded.
func (o *sessions) numbered(key string, id int32) int32 {
	list := o.table[key]
	for i := len(list) - 1; i >= 0; i-- {
		if o.all[list[i]].id == id {
			return list[i]
		}
	}
	x := o.slot(key, id)
	o.all[x].start, o.all[x].end = 0, -1 // not known
	o.table[key] = append(list, x)
	return x
}

func (o *sessions) load(key, value []byte) error {
	r := reader{src: value}
	r.format()
	k := string(key)
	for len(r.src) > 0 && !r.bad {
		s := &o.all[o.numbered(k, int32(r.varint()))]
		s.start, s.end = r.watermark(), r.watermark()
		if o.e.store != nil {
			s.listed = listed(windows.Session.FinalAt(s.end))
		}
	}
	slices.SortFunc(o.table[k], func(x, y int32) int { return cmp.Compare(o.all[x].start, o.all[y].start) })
	return r.end()
}

// loaded is called before the aggregate's. Its groups are in their sessions.
func (o *sessions) loaded() error {
	for i := range o.all {
		s := &o.all[i]
		if s.end < s.start { // a group without its session
			return errState
		}
		o.time.add(windows.Session.FinalAt(s.end), int32(i), o.e.wm)
	}
	if o.rows != nil {
		return o.rows.find(o.rows.all())
	}
	return nil
}
