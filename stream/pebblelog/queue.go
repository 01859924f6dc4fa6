package pebblelog

import (
	"context"
	"sync"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// call is one request that waits for its commit. Exactly one of events, declare, advance, drop,
// remove and rewrite says what it wants.
type call struct {
	events   []*stream.Events
	declare  *stream.Settings
	advance  *stream.Micros
	drop     bool
	remove   *removal
	rewrite  *rewrite
	stream   stream.ID // of all but events
	bytes    int
	noSync   bool
	done     chan struct{} // closed when the fields below are set
	appended []stream.Appended
	sequence stream.Sequence
	err      error
}

func (c *call) answer(err error) {
	c.err = err
	close(c.done)
}

// queue holds the calls that wait for the sequencer, bounded in number and bytes. Full: the call
// gets 429. A call greater than the bound alone is taken when nothing else waits.
type queue struct {
	maxBytes, maxCalls int
	wake               chan struct{} // has room for one: something waits, or the queue is closed
	plenty             chan struct{} // has room for one: enoughForCommit waits

	mu struct {
		sync.Mutex
		calls   []*call
		bytes   int
		refused int64
		closed  bool
	}
}

// enoughForCommit is about how many bytes are worth a commit of their own, while another one syncs.
const enoughForCommit = 1 << 20

func newQueue(maxBytes, maxCalls int) *queue {
	return &queue{maxBytes: maxBytes, maxCalls: maxCalls, wake: make(chan struct{}, 1), plenty: make(chan struct{}, 1)}
}

func (q *queue) put(c *call) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return problem.New(503, "stopping", "the server is stopping").WithHint("send it again in a moment")
	}
	if err := q.fullLocked(c.bytes); err != nil {
		return err
	}
	q.mu.calls = append(q.mu.calls, c)
	q.mu.bytes += c.bytes
	signal(q.wake)
	if q.mu.bytes >= enoughForCommit && q.mu.bytes-c.bytes < enoughForCommit {
		signal(q.plenty)
	}
	return nil
}

// fullLocked refuses a call of so many bytes when there is no room for it.
func (q *queue) fullLocked(bytes int) error {
	n := len(q.mu.calls)
	if n == 0 || n < q.maxCalls && q.mu.bytes+bytes <= q.maxBytes {
		return nil
	}
	q.mu.refused++
	p := problem.New(429, "log_busy", "%d requests already wait to be written", n).WithHint("send it again a second later")
	p.RetryAfter = 1
	return p
}

// Busy is the refusal that Append would give a request of at least so many bytes now; nil when there
// is room. Who asks first does not decode what is refused.
func (l *Log) Busy(bytes int) error {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.queue.fullLocked(bytes)
}

func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// withdraw takes a call out that nobody waits for any more; false when the sequencer has it.
func (q *queue) withdraw(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, o := range q.mu.calls {
		if o == c {
			q.mu.calls = append(q.mu.calls[:i], q.mu.calls[i+1:]...)
			q.mu.bytes -= c.bytes
			return true
		}
	}
	return false
}

// take removes the calls from the front that fits accepts, and says whether the queue is closed and
// empty now. fits is asked for one call after the other until it says no.
func (q *queue) take(fits func(*call) bool) (calls []*call, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.mu.calls) && fits(q.mu.calls[n]) {
		q.mu.bytes -= q.mu.calls[n].bytes
		n++
	}
	calls = append(calls, q.mu.calls[:n]...)
	rest := copy(q.mu.calls, q.mu.calls[n:])
	clear(q.mu.calls[rest:])
	q.mu.calls = q.mu.calls[:rest]
	return calls, q.mu.closed && rest == 0
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.closed = true
	signal(q.wake)
}

func (q *queue) gauges() (calls, bytes int, refused int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.calls), q.mu.bytes, q.mu.refused
}

// submit queues a call and waits for its answer. When ctx ends before the sequencer took the call,
// nothing was done; after that the answer is waited for, because the commit has the call's memory.
func (l *Log) submit(ctx context.Context, c *call) error {
	c.done = make(chan struct{})
	if err := l.queue.put(c); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if l.queue.withdraw(c) {
		return context.Cause(ctx)
	}
	<-c.done
	return c.err
}
