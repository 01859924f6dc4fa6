package engine

import (
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
)

// LatePolicy is what a view does with a late event whose window is not closed.
type LatePolicy uint8

// The policies.
const (
	// Correct withdraws the row and gives out the new one, within the allowed lateness.
	Correct LatePolicy = iota
	// Drop refuses every late event: the allowed lateness is 0.
	Drop
)

// Config are the options of a view that its rows depend on, and what it is told of its streams.
type Config struct {
	Late LatePolicy
	// AllowedLateness is how long after its end a window takes events; 0 with Drop.
	AllowedLateness windows.Micros
	// EmitFinal gives out final and corrected rows only (C7).
	EmitFinal bool
	// Streams says how the watermark of each source of the plan is taken.
	Streams []windows.TrackedStream
	// EventsFrom leaves out earlier events: they move the watermark and are outside the view (R2).
	// Nil takes all.
	EventsFrom *windows.Micros
	// WindowsFrom leaves out windows that begin earlier: they are not given out and refuse nothing
	// (R2). For `start: latest` it is the largest counted time at the start, plus one.
	WindowsFrom *windows.Micros
	// Evidence asks for Changes.Evidence.
	Evidence bool
	// SmallState is how many entries a set or multiset has at most that is saved whole when it
	// changes; a larger one is saved by what changed. Zero means 128. No row depends on it.
	SmallState int
	// Functions are other options for window functions by their number: those of a view beneath
	// that is a part of this one's plan.
	Functions map[int]Function
}

// Function is what one window function of a view does with late events.
type Function struct {
	AllowedLateness windows.Micros
	// Quiet functions refuse without a word: the view beneath counts and records its late events
	// (V1).
	Quiet bool
}

// Engine runs one plan. It belongs to one goroutine.
type Engine struct {
	cfg     Config
	plan    *query.Plan
	tracker *windows.Tracker
	counts  Counts
	// wm is the watermark that the operators have settled at.
	wm       windows.Micros
	sequence stream.Sequence
	skip     map[stream.ID]map[stream.Place]struct{}
	out      *Output

	// store has what the engine need not keep in memory; nil: it keeps everything. broken is why it
	// could not be read.
	store          Store
	broken         error
	spilled, reads int64

	// The operators. ops are those with state, in the order in which they are flushed.
	scans    []*scan
	windows  []window
	sessions []*sessions
	unions   []*union // inner ones first
	ops      []operator
	emit     *emitter
	// loose plans have groups whose finalAt changes; everything is flushed at each step's end.
	loose bool
	// stacked plans have windows over windows.
	stacked bool

	// The batch in work.
	in         *stream.Batch
	met        []windows.Micros // the watermark that each event met
	failures   []failure        // events that are outside the view, in order of discovery
	isFailed   []bool
	late       []bool
	lateEvents []int
	notes      map[int]*lateNote
	anyRefused bool
	cuts       []cut
	inlets     []*inlet
}

// operator is an operator with state.
type operator interface {
	target
	// feed takes rows of the batch in work: those of c that sel names (nil: all).
	feed(c *chunk, sel []int32)
	// settle flushes the groups that became final when the watermark went from start to wm, or,
	// in a loose plan, all.
	settle(start, wm windows.Micros)
	// correct flushes what changed in groups that were final before.
	correct(wm windows.Micros)
	// flush flushes everything.
	flush()
	// forget drops what is closed.
	forget(wm windows.Micros)
	// pending reports whether flush would give out something.
	pending() bool
	// save appends what changed since the last save.
	save(w *writes)
	// load sets one saved entry.
	load(key, value []byte) error
	// loaded is called when all entries are there.
	loaded() error
}

// failure is an event that is outside the view (E1).
type failure struct {
	event         int
	code, message string
}

// New returns an engine that has seen nothing.
func New(plan *query.Plan, cfg Config) (*Engine, error) {
	if cfg.Late == Drop {
		cfg.AllowedLateness = 0
	}
	if cfg.SmallState == 0 {
		cfg.SmallState = smallState
	}
	e := &Engine{
		cfg: cfg, plan: plan, out: &Output{}, notes: map[int]*lateNote{},
		tracker: windows.NewTracker(plan.Time == query.AppendTime, cfg.Streams),
		wm:      windows.NoWatermark,
	}
	// State is kept as long as any input may correct (V1).
	for _, f := range cfg.Functions {
		e.cfg.AllowedLateness = max(e.cfg.AllowedLateness, f.AllowedLateness)
	}
	if err := e.build(cfg); err != nil {
		return nil, err
	}
	return e, nil
}

// function gives the options of a window function.
func (e *Engine) function(number int, own Config) Function {
	if f, ok := own.Functions[number]; ok {
		return f
	}
	return Function{AllowedLateness: own.AllowedLateness}
}

// Watermark is the view's watermark, or windows.NoWatermark.
func (e *Engine) Watermark() windows.Micros { return e.tracker.Watermark() }

// Streams tells where each stream stands, for what holds the watermark back.
func (e *Engine) Streams() []windows.StreamState { return e.tracker.Streams() }

// Seed sets where a stream stands at the place in the log where the view begins to read, when that
// is not the log's beginning; at is the append time of the last record before it. It must come
// before the first Step.
func (e *Engine) Seed(s windows.StreamState, at windows.Micros) {
	e.tracker.Seed(s, at)
	e.wm = e.tracker.Watermark()
}

// Skip leaves events out that made an operator panic: they move the watermark and nothing else
// (E2). Their row errors are the caller's to list.
func (e *Engine) Skip(poison map[stream.ID]map[stream.Place]struct{}) { e.skip = poison }

// HasOpen reports whether a row is there that time can make final: then the clock is wanted.
func (e *Engine) HasOpen() bool {
	for _, op := range e.ops {
		if o, ok := op.(interface{ open() bool }); ok && o.open() {
			return true
		}
	}
	return e.emit.open()
}

// Pending reports what a Take of everything would give out: provisional changes, and final or
// corrected ones.
func (e *Engine) Pending() (provisional, final bool) {
	final = e.emit.changes.Len() > 0
	if e.cfg.EmitFinal {
		return false, final
	}
	provisional = e.emit.pending()
	for _, op := range e.ops {
		provisional = provisional || op.pending()
	}
	return provisional, final
}
