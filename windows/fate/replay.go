package fate

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"tidemark/stream"
	"tidemark/windows/judge"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Bounds of what is kept of a view's replay.
const (
	blockEvents    = 32_768
	maxBlocks      = 4
	maxCheckpoints = 32
	maxViews       = 64
)

// replay is what is known of one version of one view. Its lock is held while the log is read.
type replay struct {
	mu    sync.Mutex
	proof *runtime.Proof
	plan  *query.Plan
	log   stream.Log
	ids   []stream.ID
	// marks are the sequences up to which retention had removed the streams' events.
	marks []stream.Sequence
	// blockEvents is about how many events make a block.
	blockEvents int
	points      []point // by sequence, the first at 0
	blocks      []*block
}

// point is a judge that has read the log up to a sequence.
type point struct {
	at    stream.Sequence
	judge *judge.Judge
}

// block holds the accounts of the events with sequences in (from, to].
type block struct {
	from, to stream.Sequence
	accounts map[judge.Event]judge.Account
}

func newReplay(proof *runtime.Proof, log stream.Log, panics map[stream.ID]map[stream.Place]string) (*replay, error) {
	plan, err := proof.Compile()
	if err != nil {
		return nil, err
	}
	outside := map[judge.Event]string{}
	for id, places := range panics {
		for at, said := range places {
			outside[judge.Event{Stream: id, Place: at}] = said
		}
	}
	r := &replay{proof: proof, plan: plan, log: log, blockEvents: blockEvents}
	for _, s := range proof.Sources {
		r.ids = append(r.ids, s.ID)
	}
	first := judge.New(plan, judge.Config{
		AllowedLateness: proof.AllowedLateness, Streams: proof.Streams, EventsFrom: proof.EventsFrom, WindowsFrom: proof.WindowsFrom,
		StartAt: proof.StartAt, Outside: outside, Functions: judge.Functions(plan),
	})
	for _, id := range r.ids {
		m, err := log.Mark(id)
		if err != nil {
			return nil, err
		}
		first.Mark(id, m)
		r.marks = append(r.marks, m.Sequence)
	}
	r.points = []point{{0, first}}
	return r, nil
}

// fresh reports whether the log still has all that the replay began with.
func (r *replay) fresh() bool {
	for i, id := range r.ids {
		if m, err := r.log.Mark(id); err != nil || m.Sequence != r.marks[i] {
			return false
		}
	}
	return true
}

// account is what the view did with the event of an entry with this sequence.
func (r *replay) account(ctx context.Context, ev judge.Event, at stream.Sequence) (judge.Account, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.blocks {
		if b.from < at && at <= b.to {
			r.blocks = append(append(r.blocks[:i:i], r.blocks[i+1:]...), b)
			return b.find(ev)
		}
	}
	i := sort.Search(len(r.points), func(i int) bool { return r.points[i].at >= at }) - 1
	b, err := r.read(ctx, r.points[i], at)
	if err != nil {
		return judge.Account{}, err
	}
	return b.find(ev)
}

func (b *block) find(ev judge.Event) (judge.Account, error) {
	a, ok := b.accounts[ev]
	if !ok {
		return a, fmt.Errorf("the log has no event at %s between sequences %d and %d", ev.Place, b.from, b.to)
	}
	return a, nil
}

// read replays from a checkpoint until a block is full that holds the sequence at.
func (r *replay) read(ctx context.Context, from point, at stream.Sequence) (*block, error) {
	b := &block{from: from.at, to: from.at, accounts: map[judge.Event]judge.Account{}}
	tell := func(ev judge.Event, a judge.Account) { b.accounts[ev] = a }
	j := from.judge.Clone(tell)
	reader := r.log.Read(r.ids, from.at)
	defer reader.Close()
	for {
		e, ok, err := reader.Next()
		if err != nil {
			return nil, fmt.Errorf("replay the log: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		full := len(b.accounts) > 0 && e.Batch != nil && len(b.accounts)+e.Batch.Len > r.blockEvents
		if full || e.Sequence() > at && len(b.accounts) == 0 {
			if b.to >= at {
				break
			}
			r.keep(point{b.to, j.Clone(nil)})
			b = &block{from: b.to, to: b.to, accounts: map[judge.Event]judge.Account{}}
			j = j.Clone(tell)
		}
		j.Step(e)
		b.to = e.Sequence()
	}
	r.keep(point{b.to, j.Clone(nil)})
	r.blocks = append(r.blocks, b)
	if len(r.blocks) > maxBlocks {
		r.blocks = r.blocks[1:]
	}
	return b, nil
}

// keep adds a checkpoint; when there are too many, every other one goes.
func (r *replay) keep(p point) {
	i, known := slices.BinarySearchFunc(r.points, p.at, func(q point, at stream.Sequence) int { return int(q.at - at) })
	if known {
		return
	}
	r.points = slices.Insert(r.points, i, p)
	if len(r.points) <= maxCheckpoints {
		return
	}
	kept := r.points[:0]
	for i, q := range r.points {
		if i%2 == 0 {
			kept = append(kept, q)
		}
	}
	clear(r.points[len(kept):])
	r.points = kept
}
