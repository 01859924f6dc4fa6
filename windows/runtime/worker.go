package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
)

// machine is what a worker needs of an engine.
type machine interface {
	Step(e stream.Entry) error
	// Pending says what changes a Take would give out.
	Pending() (provisional, final bool)
	Take(all bool) *engine.Output
	// Recover brings back what was committed; Evict leaves there what is over a limit, and Memory
	// tells what is where. Err is why the store could not be read.
	Recover(s engine.Store, limit int64) error
	Evict(limit int64)
	Memory() engine.Memory
	Err() error
	HasOpen() bool
	// Skip names events that move the watermark and give no row.
	Skip(poison map[stream.ID]map[stream.Place]struct{})
	Streams() []windows.StreamState
	Seed(s windows.StreamState, at windows.Micros)
	// Mark says where a stream stood before what the log still has of it.
	Mark(id stream.ID, m stream.Mark)
}

var _ machine = (*engine.Engine)(nil)

// worker folds the log into one version of a view. It belongs to one goroutine.
type worker struct {
	svc *Service
	v   *view
	doc *stored
	// serving: the version's rows are served. Else it is built beside the one that is.
	serving bool
	fields  []row.Field
	names   map[stream.ID]string
	types   []map[int]row.Type // that the columns are bound to, by source
	// servedTypes are those of the version that is served while this one is built.
	servedTypes []map[int]row.Type
	follower    Follower
	logger      *slog.Logger
	// compile makes a fresh engine; machines that panicked are thrown away.
	compile func(windowsFrom *windows.Micros) (machine, error)

	eng    machine
	reader stream.Reader
	pace   pace
	now    func() time.Time

	done progress // what is committed
	asOf AsOf     // of what was taken since
	at   windows.Micros
	last stream.Sequence
	in   pending
	// poison are the events that made the engine panic in this epoch, with what it said.
	poison []poisoned
	// out is what was taken already when poison was looked for; commit uses it.
	out  *engine.Output
	wish bool
	// looked: no row with an earlier time was left when the clock had one looked for; nil: none was.
	looked *windows.Micros
	// work notes whether a crash now would be one with an epoch in work.
	work *workNote
}

// fatal is an error that trying again would not mend: the view fails.
type fatal struct{ error }

// newWorker recovers a version of a view: its state, and where to go on.
func (v *view) newWorker(doc *stored, serving bool) (*worker, error) {
	s := v.svc
	w := &worker{
		svc: s, v: v, doc: doc, serving: serving, names: doc.streamNames(), types: doc.boundTypes(), now: s.Now,
		logger: s.logger.With("view", v.name),
	}
	w.work = v.workOf(doc.Version)
	d := doc.Definition
	w.pace = pace{
		throttle: time.Duration(*d.Throttle), epoch: time.Duration(*d.Epoch),
		maxEvents: s.EpochEvents, maxPending: s.PendingEvents,
	}
	att := s.attachments[v.kind]
	if att.EpochEvents > 0 {
		w.pace.maxEvents = att.EpochEvents
	}
	var err error
	if w.fields, err = loadFields(doc.Fields); err != nil {
		return nil, fatal{err}
	}
	w.compile = func(windowsFrom *windows.Micros) (machine, error) {
		plan, err := s.compile(doc)
		if err != nil {
			return nil, err
		}
		v.setPlan(plan)
		cfg := doc.engineConfig(att.Evidence, windowsFrom)
		cfg.Functions = functions(plan)
		e, err := engine.New(plan, cfg)
		if err != nil {
			return nil, err
		}
		if s.wrap != nil {
			return s.wrap(e), nil
		}
		return e, nil
	}
	if err := w.reload(); err != nil {
		return nil, err
	}
	if serving && att.Open != nil {
		w.follower, err = att.Open(Meta{
			ID: v.id, Name: v.name, Version: int(doc.ViewVersion), Fields: w.fields, Extra: doc.Extra, Sources: names(doc.Sources),
		})
		if err != nil {
			return nil, err
		}
	}
	w.spill()
	return w, nil
}

func names(sources []boundSource) []string {
	out := make([]string, len(sources))
	for i, b := range sources {
		out[i] = b.Name
	}
	return out
}

// reload makes a fresh engine of what is committed, and begins to read behind it.
func (w *worker) reload() error {
	w.close()
	id, version := w.v.id, w.doc.Version
	var err error
	var seeds []windows.StreamState
	w.done, err = getJSON[progress](w.svc.kv, progressKey(id, version))
	var began map[stream.ID]stream.Mark
	first := errors.Is(err, kv.ErrNotFound)
	if first {
		if began, err = w.marksNow(); err == nil {
			w.done, seeds, err = w.svc.begin(w.doc, began)
		}
	}
	if err != nil {
		return err
	}
	if w.eng, err = w.compile(w.done.WindowsFrom); err != nil {
		return fatal{fmt.Errorf("compile: %w", err)}
	}
	for _, st := range seeds {
		w.eng.Seed(st, w.done.AppendTime)
	}
	if p := w.done.Position; p.Log != w.svc.log.ID() {
		return fatal{fmt.Errorf("the view has read events that are no longer in the log, up to sequence %d, and the log no longer reaches back to where the view begins: POST /v1/views/%s/rebuild makes it of what is there", p.Sequence, w.v.name)}
	} else if p.Sequence > w.svc.log.End() {
		return fatal{fmt.Errorf("the view has read a log that is no longer there, up to sequence %d: make the view again", p.Sequence)}
	}
	if err := w.readCrashes(); err != nil {
		return err
	}
	err = w.eng.Recover(w.v.state(version), w.svc.StateBytes)
	if errors.Is(err, engine.ErrFormat) {
		if !w.svc.reachesBack(w.doc) {
			return fatal{fmt.Errorf("%w, and the log no longer reaches back to where the view begins: POST /v1/views/%s/rebuild makes it of what is there", err, w.v.name)}
		}
		return fatal{fmt.Errorf("%w: POST /v1/views/%s/rebuild makes it again of the log", err, w.v.name)}
	}
	if err != nil {
		return fmt.Errorf("recover state: %w", err)
	}
	w.asOf, w.at, w.last, w.in = w.done.AsOf.clone(), w.done.AppendTime, w.done.Position.Sequence, pending{}
	w.poison, w.out = nil, nil
	w.reader = w.svc.log.Read(w.doc.ids(), w.last)
	if w.last > 0 {
		return nil
	}
	for id, m := range marks(w.reader, w.doc.ids()) {
		if first && m.Sequence != began[id].Sequence { // retention has removed more meanwhile
			return w.reload()
		}
	}
	w.beginAtMarks()
	return nil
}

// marksNow are where the view's streams begin in the log now.
func (w *worker) marksNow() (map[stream.ID]stream.Mark, error) {
	r := w.svc.log.Read(w.doc.ids(), 0)
	return marks(r, w.doc.ids()), r.Close()
}

// beginAtMarks lets a version that has read nothing begin with what the log remembers of the events
// that retention has removed (W1).
func (w *worker) beginAtMarks() {
	for _, id := range w.doc.ids() {
		m := w.reader.Start(id)
		if m.Sequence == 0 {
			continue
		}
		w.eng.Mark(id, m)
		w.asOf.Offsets[w.names[id]] = append([]stream.Offset{}, m.First...)
	}
}

func (w *worker) close() {
	if w.reader != nil {
		_ = w.reader.Close()
		w.reader = nil
	}
	w.svc.budget.leave(w)
}

// run takes entries and commits epochs until ctx ends, then commits the last one. caughtUp, when
// not nil, is asked whenever everything was read; true ends run.
func (w *worker) run(ctx context.Context, caughtUp func() bool) error {
	defer w.close()
	defer w.wantClock(false)
	news, stop := w.svc.log.Watch(w.doc.ids()...)
	defer stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	asks, deaf := w.listen()
	defer deaf()
	w.wantClock(w.eng.HasOpen())
	if err := w.commitFirst(); err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return w.finish(ctx)
		}
		end := w.svc.log.End()
		e, ok, err := w.reader.Next()
		if err != nil {
			return w.unread(err)
		}
		if ok && w.servedOutgrown(e) {
			return w.commit()
		}
		if ok {
			if err := w.take(e); err != nil {
				return w.halted(err)
			}
		} else {
			w.drained(end)
		}
		select {
		case answer := <-asks:
			if err := w.asked(answer, !ok && w.in.entries == 0); err != nil {
				return err
			}
			continue // with the log's end as it is now
		default:
		}
		commit, wait := w.pace.due(w.now(), w.in, !ok)
		if commit {
			if err := w.commit(); err != nil {
				return err
			}
			continue
		}
		if ok {
			continue
		}
		if caughtUp != nil && caughtUp() {
			return w.commit()
		}
		if wait > patience {
			if err := w.calmDown(); err != nil {
				return err
			}
		}
		if wait <= 0 {
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-news:
		case <-timer.C:
		case answer := <-asks:
			if err := w.asked(answer, w.in.entries == 0); err != nil {
				return err
			}
		}
	}
}

// unread is why the log can't be read on. A view that retention has overtaken can't go on (R4).
func (w *worker) unread(err error) error {
	err = fmt.Errorf("read the log behind sequence %d: %w", w.last, err)
	var gone *stream.Trimmed
	if errors.As(err, &gone) {
		return fatal{fmt.Errorf("%w: rebuild the view to make it of what is there", err)}
	}
	return err
}

// lastRead is how long a worker reads on at most when the server stops.
const lastRead = 2 * time.Second

// finish commits the last epoch. When it is the server that stops, what the log holds by now is
// read first, so that the next start replays nothing; when the view is paused, edited or deleted it
// is not.
func (w *worker) finish(ctx context.Context) error {
	switch context.Cause(ctx) {
	case errHandOver:
		return w.readUpTo()
	case errPaused, errEdited, errDeleted:
		return w.commit()
	}
	end, until := w.svc.log.End(), w.now().Add(lastRead)
	for w.last < end && w.now().Before(until) {
		if ok, err := w.takeNext(); err != nil {
			return w.halted(err)
		} else if !ok {
			break
		}
	}
	return w.commit()
}

// readUpTo reads as far as what is built beside this version is, so that at the switch no change of
// the log between the two is folded into the difference.
func (w *worker) readUpTo() error {
	w.v.mu.Lock()
	upTo := w.v.mu.handOver
	w.v.mu.Unlock()
	for w.last < upTo {
		if ok, err := w.takeNext(); err != nil {
			return w.halted(err)
		} else if !ok {
			break
		}
		if commit, _ := w.pace.due(w.now(), w.in, false); commit {
			if err := w.commit(); err != nil {
				return err
			}
		}
	}
	return w.commit()
}

// takeNext takes the next entry that the reader has.
func (w *worker) takeNext() (ok bool, err error) {
	e, ok, err := w.reader.Next()
	if err == nil && ok {
		err = w.take(e)
	}
	return ok, err
}

// halted commits what was taken before an entry that is too wide for this version.
func (w *worker) halted(err error) error {
	if w.svc.isOutgrown(err) {
		err = errors.Join(err, w.commit())
	}
	return err
}

// take gives one entry to the engine. A panic throws the epoch away and runs it again, entry by
// entry, up to this one (E2).
func (w *worker) take(e stream.Entry) error {
	if err := w.outgrows(e); err != nil {
		return err
	}
	if err := w.noteWork(); err != nil {
		return err
	}
	panicked, err := w.step(e)
	if panicked != nil {
		return w.rerun(e.Sequence(), panicked)
	}
	return err
}

func (w *worker) step(e stream.Entry) (panicked *panicError, err error) {
	panicked = protect(func() { err = w.eng.Step(e) })
	if panicked != nil || err != nil {
		return panicked, err
	}
	if w.in.entries == 0 {
		w.in.since = w.now()
	}
	w.in.entries++
	if b := e.Batch; b != nil {
		w.in.events += b.Len
	}
	w.in.provisional, w.in.final = w.eng.Pending()
	if w.serving {
		w.v.gauges.pending.Store(int64(w.in.events))
	}
	w.asOf.take(w.names[e.Stream()], e)
	w.last, w.at = e.Sequence(), e.AppendTime()
	return nil, nil
}

// drained notes that everything up to end was read, and committed when nothing is pending.
func (w *worker) drained(end stream.Sequence) {
	w.wantClock(w.eng.HasOpen())
	if !w.serving {
		return
	}
	v := w.v
	v.mu.Lock()
	defer v.mu.Unlock()
	news := false
	if w.in.entries == 0 && end > v.mu.seen {
		v.mu.seen, news = end, true
	}
	if !v.mu.live {
		v.mu.live, news = true, true
	}
	if news {
		v.notifyLocked()
	}
}

// wantClock asks the log for clock records while the view holds a row that is not final (W7).
func (w *worker) wantClock(want bool) {
	if w.wish == want {
		return
	}
	w.wish = want
	owner := fmt.Sprintf("view %d.%d", w.v.id, w.doc.Version)
	for _, id := range w.doc.ids() {
		w.svc.log.WantClock(id, owner, want)
	}
}
