package verify

import (
	"context"
	"errors"
	"sync"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/runtime"
)

// Runs are comparisons in the background: one runs at a time, the others wait their turn. It is
// safe for concurrent use.
type Runs struct {
	verifier *Verifier
	ctx      context.Context
	stop     context.CancelFunc
	turn     chan struct{}
	wait     sync.WaitGroup

	mu struct {
		sync.Mutex
		running map[string]*run
		// last are the answers of the last comparisons, for at most maxLast views.
		last   map[string]*Result
		closed bool
	}
}

// Bounds of comparisons.
const (
	// maxWaiting is how many views may wait for their turn. More: 429.
	maxWaiting = 16
	maxLast    = 64
	// endsWithin bounds one comparison.
	endsWithin = 30 * time.Minute
)

// Gauges are the figures of comparisons, for operators.
type Gauges struct {
	// Waiting are those that run or wait for their turn; more than MaxWaiting are refused with 429.
	Waiting, MaxWaiting int
	// Events are how many the one that runs has read, Of how many; 0 of 0 when none runs.
	Events, Of int64
}

// Gauges returns the figures.
func (r *Runs) Gauges() Gauges {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := Gauges{Waiting: len(r.mu.running), MaxWaiting: maxWaiting + 1}
	for _, one := range r.mu.running {
		if p := one.progress(); p.Of > 0 {
			g.Events, g.Of = p.Events, p.Of
		}
	}
	return g
}

// run is one comparison that has not ended, or just did.
type run struct {
	done   chan struct{}
	result *Result
	err    error

	mu         sync.Mutex
	events, of int64
}

// Progress is the answer while a comparison runs.
type Progress struct {
	Result string `json:"result"`
	// Events of the log are read, Of how many there are; 0 of 0 while it waits for its turn.
	Events int64 `json:"events"`
	Of     int64 `json:"of"`
}

// NewRuns returns runs of a verifier. Close ends them.
func NewRuns(v *Verifier) *Runs {
	r := &Runs{verifier: v, turn: make(chan struct{}, 1)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.mu.running, r.mu.last = map[string]*run{}, map[string]*Result{}
	return r
}

// Close ends all comparisons and waits for them.
func (r *Runs) Close() {
	r.mu.Lock()
	r.mu.closed = true
	r.mu.Unlock()
	r.stop()
	r.wait.Wait()
}

// Ask compares a view with its batch answer, or joins the comparison that runs, and waits for the
// answer. done is false, and the answer a *Progress, when it goes on behind the answer.
func (r *Runs) Ask(ctx context.Context, name string, wait time.Duration) (answer any, done bool, err error) {
	one, err := r.begin(name)
	if err != nil {
		return nil, false, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-one.done:
		return one.result, true, one.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return one.progress(), false, nil
}

// Last is how the last comparison of a view ended, or how far the one that runs is.
func (r *Runs) Last(name string) (answer any, done bool, err error) {
	r.mu.Lock()
	one, last := r.mu.running[name], r.mu.last[name]
	r.mu.Unlock()
	info, err := r.verifier.Views.Get(name)
	switch {
	case err != nil:
		return nil, false, err
	case one != nil:
		return one.progress(), false, nil
	case last != nil && info.Verified != nil && info.Verified.Position == last.Position:
		return last, true, nil
	case info.Verified != nil:
		return info.Verified, true, nil
	}
	return nil, false, problem.New(404, "not_verified", "the view %s was not verified yet", name).
		WithHint("POST /v1/views/%s/verify compares it with its batch answer", name)
}

func (r *Runs) begin(name string) (*run, error) {
	if _, err := r.verifier.Views.Get(name); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.mu.running[name]; one != nil {
		return one, nil
	}
	if r.mu.closed {
		return nil, problem.New(503, "server_stops", "the server is stopping").WithHint("send the request again in a few seconds")
	}
	if len(r.mu.running) > maxWaiting {
		p := problem.New(429, "too_many_verifications", "%d views wait to be verified: more are not taken now", maxWaiting).WithHint("try again in a minute")
		p.RetryAfter = 60
		return nil, p
	}
	one := &run{done: make(chan struct{})}
	r.mu.running[name] = one
	r.wait.Go(func() { r.work(name, one) })
	return one, nil
}

func (r *Runs) work(name string, one *run) {
	ctx, cancel := context.WithTimeout(r.ctx, endsWithin)
	defer cancel()
	select {
	case r.turn <- struct{}{}:
		one.result, one.err = r.verifier.Verify(ctx, name, one.note)
		<-r.turn
	case <-ctx.Done():
		one.err = ctx.Err()
	}
	if one.err != nil && ctx.Err() != nil {
		one.err = problem.New(503, "verify_stopped", "the comparison was broken off: %v", errors.Join(context.Cause(ctx))).
			WithHint("ask for it again")
	}
	if one.err == nil {
		// A view that was deleted meanwhile keeps nothing.
		_ = r.verifier.Views.SetVerified(name, one.result.kept(time.Now()))
	}
	r.mu.Lock()
	delete(r.mu.running, name)
	if one.err == nil {
		for old := range r.mu.last {
			if len(r.mu.last) >= maxLast && old != name {
				delete(r.mu.last, old)
			}
		}
		r.mu.last[name] = one.result
	}
	r.mu.Unlock()
	close(one.done)
}

// kept is what stays with the view.
func (r *Result) kept(now time.Time) runtime.Verified {
	return runtime.Verified{
		Result: r.Result, Reason: r.Reason, At: string(row.FormatTimestamp(nil, now.UnixMicro())), Position: r.Position, Rows: r.Rows,
		ViewVersion: r.viewVersion, Differences: r.DifferenceCount + r.LateDifferenceCount + r.RowErrorDifferenceCount,
	}
}

func (o *run) note(events, of int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events, o.of = events, of
}

func (o *run) progress() *Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &Progress{Running, o.events, o.of}
}
