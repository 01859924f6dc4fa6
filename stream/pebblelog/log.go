package pebblelog

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
)

// Log is an open log.
type Log struct {
	kv *kv.Store
	o  Options
	id stream.LogID
	// ancestors are the histories that this one goes on from.
	ancestors []ancestor
	codec     *codec
	queue     *queue
	space     spaceWatch

	// broken is set once, when the store has failed; nothing is appended any more.
	broken atomic.Pointer[error]
	// checks asks the sequencer to look at the timers and is answered by closing the channel.
	checks chan chan struct{}
	// inFlight hands commits from the sequencer to the syncer. It has no room: at most one commit
	// waits for its fsync while the next one is being made.
	inFlight chan *commit
	ended    sync.WaitGroup
	closing  sync.Once
	stopped  chan struct{} // closed when the sequencer has ended

	// lost is what the log should have and does not have (P1b): it is read only then.
	lost struct {
		sync.RWMutex
		what []string
	}
	// saving is held by who writes the witness.
	saving       sync.Mutex
	savedWitness []byte
	witnessFails atomic.Bool
	witnessDue   chan struct{} // has room for one: something was committed
	witnessEnded sync.WaitGroup

	// keeping is held by who applies retention and compaction.
	keeping     sync.Mutex
	ages        ages
	stopKeeping context.CancelFunc
	keeperEnded sync.WaitGroup

	// answers tells which idempotency keys surely have no answer.
	answers struct {
		sync.RWMutex
		hours    *hours                             // of durable answers
		inFlight map[stream.IdempotencyKey]struct{} // of commits that are not durable yet
	}

	// letters is held by who changes a dead letter that is there.
	letters sync.Mutex

	// mu guards what readers see: only what is durable (I3).
	mu struct {
		sync.RWMutex
		end         stream.Sequence
		at          stream.Micros // append time of end
		stats       map[stream.ID]stream.Stats
		settings    map[stream.ID]stream.Settings
		marks       map[stream.ID]stream.Mark
		compact     map[stream.ID]compactState // of streams that compaction has touched
		sums        map[stream.ID][]uint32     // checksum of the last batch of each partition; 0: none
		tail        tail
		deadLetters map[stream.ID]uint64 // last number
		watchers    map[*watcher]struct{}
		clock       map[stream.ID]map[string]struct{} // wishes for clock records by owner
	}
}

// Open opens the log in a store and starts its goroutines; Close ends them.
func Open(store *kv.Store, o Options) (*Log, error) {
	l := &Log{kv: store, o: o.WithDefaults(), checks: make(chan chan struct{}), inFlight: make(chan *commit), stopped: make(chan struct{}), witnessDue: make(chan struct{}, 1)}
	l.ages = newAges(l.o)
	l.queue = newQueue(l.o.QueueBytes, l.o.QueueRequests)
	l.mu.stats, l.mu.settings, l.mu.sums = map[stream.ID]stream.Stats{}, map[stream.ID]stream.Settings{}, map[stream.ID][]uint32{}
	l.mu.marks, l.mu.compact = map[stream.ID]stream.Mark{}, map[stream.ID]compactState{}
	l.mu.watchers = map[*watcher]struct{}{}
	l.mu.clock = map[stream.ID]map[string]struct{}{}
	l.mu.deadLetters = map[stream.ID]uint64{}
	l.answers.hours, l.answers.inFlight = newHours(), map[stream.IdempotencyKey]struct{}{}
	seq, err := l.recover()
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if l.codec, err = newCodec(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.space.look(l.o, seq.opened) // a start on a full disk takes no write
	l.ended.Add(2)
	go func() { defer l.ended.Done(); defer close(l.stopped); seq.run() }()
	go func() { defer l.ended.Done(); l.syncCommits() }()
	if l.o.WitnessPeriod >= 0 {
		l.witnessEnded.Go(l.keepWitness)
	}
	var ctx context.Context
	ctx, l.stopKeeping = context.WithCancel(context.Background())
	if l.o.KeepPeriod > 0 {
		l.keeperEnded.Go(func() { l.keep(ctx) })
	}
	l.witnessDue <- struct{}{}
	return l, nil
}

// Close refuses new requests, finishes those that wait, and ends the log's goroutines. The store
// stays open.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.stopKeeping()
		l.keeperEnded.Wait()
		l.queue.close()
		l.ended.Wait()
		close(l.witnessDue)
		l.witnessEnded.Wait()
		l.saveWitness()
		l.codec.close()
	})
	if err := l.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// recover reads the log's state from the store.
func (l *Log) recover() (*sequencer, error) {
	if err := l.readIdentity(); err != nil {
		return nil, err
	}
	q := &sequencer{l: l, streams: map[stream.ID]*streamState{}, opened: l.o.Monotonic()}
	q.steps = newStepWatch(l.o, q.opened)
	switch value, err := l.kv.Get(endKey); {
	case errors.Is(err, kv.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		var ok bool
		if q.end, q.at, ok = decodeEnd(value); !ok {
			return nil, fmt.Errorf("the record of the log's end can't be read: %w", errDamaged)
		}
	}
	if err := q.readStreams(); err != nil {
		return nil, err
	}
	for _, s := range q.streams {
		q.checkEnds(s)
		if err := q.readIDs(s); err != nil {
			return nil, err
		}
	}
	if err := q.readAnswers(); err != nil {
		return nil, err
	}
	if err := q.compare(); err != nil {
		return nil, err
	}
	if err := q.settle(); err != nil {
		return nil, err
	}
	for _, s := range q.streams {
		l.mu.stats[s.id] = s.publicStats()
		l.mu.settings[s.id], l.mu.sums[s.id], l.mu.marks[s.id] = s.settings, s.sums, s.mark
		if s.isCompacted {
			l.mu.compact[s.id] = s.compact
		}
		l.mu.deadLetters[s.id] = s.lastDeadLetter
	}
	l.mu.end, l.mu.at = q.end, q.at
	l.mu.tail = newTail(l.o.TailBytes, q.end)
	return q, nil
}

// readStreams reads settings, counters and partition states.
func (q *sequencer) readStreams() error {
	prefix := []byte{byte(kv.Counters)}
	it := q.l.kv.Iter(prefix, kv.PrefixEnd(prefix))
	defer func() { _ = it.Close() }()
	for ok := it.First(); ok; ok = it.Next() {
		key, value := it.Key(), it.Value()
		if len(key) < 10 {
			return fmt.Errorf("key %q among the states of streams: %w", key, errDamaged)
		}
		id := stream.ID(binary.BigEndian.Uint64(key[1:]))
		s := q.streams[id]
		if s == nil {
			s = &streamState{id: id, ids: newHours(), silent: q.opened}
			q.streams[id] = s
		}
		good := true
		switch key[9] {
		case 's':
			good = json.Unmarshal(value, &s.settings) == nil
		case 'c':
			good = s.decodeCounters(value)
		case 'k':
			s.compact, good = decodeCompactState(value)
			s.isCompacted = true
		case 'm':
			s.mark, good = decodeMark(value)
		case 'p':
			var p stream.PartitionStats
			p, good = decodePartition(value)
			good = good && int(binary.BigEndian.Uint32(key[10:])) == len(s.stats.Partitions)
			s.stats.Partitions = append(s.stats.Partitions, p)
			s.quiet = append(s.quiet, q.opened) // W4: timers begin again at a start
		}
		if !good {
			return fmt.Errorf("the state of stream %d: %w", id, errDamaged)
		}
	}
	for _, s := range q.streams {
		if s.settings.Partitions != len(s.stats.Partitions) {
			return fmt.Errorf("stream %s has %d partitions and the states of %d: %w", s.settings.Name, s.settings.Partitions, len(s.stats.Partitions), errDamaged)
		}
	}
	return it.Err()
}

// checkEnds compares the states of partitions with the last batch that is there. A partition that
// ends too early ends there for readers; that it should not is kept in l.lost.
func (q *sequencer) checkEnds(s *streamState) {
	s.sums = make([]uint32, len(s.stats.Partitions))
	for p := range s.stats.Partitions {
		st := &s.stats.Partitions[p]
		next := st.First
		from := batchKey(s.id, stream.Partition(p), 0)
		it := q.l.kv.Iter(from, kv.PrefixEnd(from[:13]))
		var err error
		if it.Last() {
			var h batchHeader
			h, err = decodeHeader(it.Key(), it.Value())
			next = max(st.First, h.batch.Base+h.span)
			s.sums[p] = h.sum
		}
		switch err = errors.Join(err, it.Close()); {
		case err != nil:
			q.l.lose(fmt.Sprintf("stream %s, partition %d: the last batch before offset %d can't be read: %v", s.settings.Name, p, st.Next, err))
		case next != st.Next:
			q.l.lose(fmt.Sprintf("stream %s, partition %d: the events end at offset %d and should end at %d", s.settings.Name, p, next, st.Next))
			st.Next = next
		}
	}
}

// settle says what becomes of a log that has lost something: it is read only, or, when the loss is
// accepted, goes on as another history.
func (q *sequencer) settle() error {
	l := q.l
	lost := l.Lost()
	if len(lost) == 0 {
		return nil
	}
	for _, what := range lost {
		l.o.Logger.Error("the log has lost something", "what", what, "accepted", l.o.AcceptLoss)
	}
	if !l.o.AcceptLoss {
		return nil
	}
	b := l.kv.NewBatch()
	for _, s := range q.streams {
		for p := range s.stats.Partitions {
			b.Set(partitionKey(s.id, stream.Partition(p)), encodePartition(s.stats.Partitions[p]))
		}
	}
	if err := b.Commit(true); err != nil {
		return err
	}
	id, err := rename(l.kv, l.id, l.ancestors, q.end)
	if err != nil {
		return err
	}
	l.lost.what = nil
	l.o.Logger.Warn("the loss is accepted: the log goes on as another one, and positions of the old one are known as gone", "was", uint64(l.id), "is", uint64(id))
	return l.readIdentity()
}

// ID is the log's identity.
func (l *Log) ID() stream.LogID { return l.id }

// End is the last durable sequence.
func (l *Log) End() stream.Sequence {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.end
}

// Declared are the streams that the log knows.
func (l *Log) Declared() []stream.ID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]stream.ID, 0, len(l.mu.stats))
	for id := range l.mu.stats {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Stats says where a stream stands.
func (l *Log) Stats(id stream.ID) (stream.Stats, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s, ok := l.mu.stats[id]
	if !ok {
		return stream.Stats{}, unknownStream(id)
	}
	s.Partitions = slices.Clone(s.Partitions)
	return s, nil
}

// name is a stream's name for messages; its number when the log does not know it.
func (l *Log) name(id stream.ID) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if name := l.mu.settings[id].Name; name != "" {
		return name
	}
	return fmt.Sprint(id)
}

func unknownStream(id stream.ID) error {
	return fmt.Errorf("stream %d: %w", id, stream.ErrUnknownStream)
}

// WantClock notes or takes back an owner's wish for clock records on a stream.
func (l *Log) WantClock(id stream.ID, owner string, want bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owners := l.mu.clock[id]
	switch {
	case want && owners == nil:
		l.mu.clock[id] = map[string]struct{}{owner: {}}
	case want:
		owners[owner] = struct{}{}
	default:
		delete(owners, owner)
		if len(owners) == 0 {
			delete(l.mu.clock, id)
		}
	}
}

func (l *Log) clockWanted(id stream.ID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.mu.clock[id]) > 0
}

// Gauges are the log's own figures.
type Gauges struct {
	QueueBytes, QueueRequests int
	TailBytes                 int
	Refused                   int64 // requests answered with 429
	DiskFull                  bool
}

// Gauges returns the log's own figures.
func (l *Log) Gauges() Gauges {
	g := Gauges{DiskFull: l.space.full.Load()}
	g.QueueRequests, g.QueueBytes, g.Refused = l.queue.gauges()
	l.mu.RLock()
	defer l.mu.RUnlock()
	g.TailBytes = l.mu.tail.bytes
	return g
}

// fail notes that the store failed (I6).
func (l *Log) fail(err error) {
	if l.broken.CompareAndSwap(nil, &err) {
		l.o.Logger.Error("the log takes no events any more", "err", err)
	}
}

// refusal is why nothing can be appended now; nil when it can.
func (l *Log) refusal() error {
	if err := l.broken.Load(); err != nil {
		p := problem.New(503, "log_failed", "the log can't write any more").
			WithHint("reading goes on; see the server's log and start the server again")
		p.Cause = *err
		return p
	}
	if lost := l.Lost(); len(lost) > 0 {
		p := problem.New(503, "log_shortened", "the log is shorter than it was, so nothing is written: %s", nameLost(lost)).
			WithHint("restore a backup, or start the server with --accept-loss to go on without what is missing")
		p.Cause = stream.ErrShortened
		return p
	}
	if l.space.full.Load() {
		return problem.New(503, "disk_full", "the disk is nearly full, so nothing more is written").
			WithHint("free space; writing begins again by itself")
	}
	return nil
}

// spaceWatch looks at the free space of the disk now and then.
type spaceWatch struct {
	full atomic.Bool
	last time.Duration
	seen bool
}

const spacePeriod = 500 * time.Millisecond

// look is called by the sequencer at its timers.
func (w *spaceWatch) look(o Options, now time.Duration) {
	if o.Space == nil || w.seen && now-w.last < spacePeriod {
		return
	}
	w.last, w.seen = now, true
	free, err := o.Space()
	if err != nil {
		o.Logger.Warn("the free space of the disk can't be read", "err", err)
		return
	}
	switch full := w.full.Load(); {
	case !full && free < o.MinFree:
		w.full.Store(true)
		o.Logger.Error("the disk is nearly full: writes are refused", "free", free, "least", o.MinFree)
	case full && free >= o.MinFree+o.MinFree/2:
		w.full.Store(false)
		o.Logger.Info("the disk has space again: writes go on", "free", free)
	}
}
