package live

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/storage/problem"
)

// Hub holds all who listen.
type Hub struct {
	opts Options
	mu   struct {
		sync.Mutex
		lines map[line]Client
		byKey map[string]int // lines of each key
		// rights are those that can end, each with the lines that end with it.
		rights   map[<-chan struct{}]*rights
		draining bool
		// empty is closed when draining and the last line has left.
		empty chan struct{}
		// readers holds who reads for a group (I6).
		readers map[groupKey]*subscription
		// tails are the change streams that are followed now.
		tails map[Relation]*tail
		// casts read for many subscriptions each.
		casts map[castKey]*cast
		// snapshots are those of views that were asked for just now.
		snapshots map[castKey]*snapshots
	}
	stats Stats
}

// line is one client's connection: a socket or an event stream.
type line interface {
	// sendAway tells the client to come again later and ends the connection.
	sendAway(after time.Duration)
	// revoke ends it because its client's rights have ended.
	revoke()
	// kill ends it at once.
	kill()
}

type groupKey struct {
	relation Relation
	group    string
}

// Stats counts what the hub does. All are read with Load.
type Stats struct {
	Sockets, Subscriptions        atomic.Int64 // now
	Casts, Shared                 atomic.Int64 // now; shared are the subscriptions that casts read for
	Frames, Bytes                 atomic.Int64 // since the start
	Refused, CutOff, Gaps, Panics atomic.Int64 // since the start
	FoldedChanges                 atomic.Int64 // changes that folding saved
	FellBehind                    atomic.Int64 // how often a client had no room and left its cast
}

// count adds one message to what was sent.
func (s *Stats) count(bytes int) {
	s.Frames.Add(1)
	s.Bytes.Add(int64(bytes))
}

// NewHub returns a hub without clients.
func NewHub(opts Options) *Hub {
	h := &Hub{opts: opts.WithDefaults()}
	h.mu.lines = map[line]Client{}
	h.mu.rights = map[<-chan struct{}]*rights{}
	h.mu.casts = map[castKey]*cast{}
	h.mu.snapshots = map[castKey]*snapshots{}
	h.mu.byKey = map[string]int{}
	h.mu.readers = map[groupKey]*subscription{}
	h.mu.tails = map[Relation]*tail{}
	h.mu.empty = make(chan struct{})
	return h
}

// Stats are the hub's counters.
func (h *Hub) Stats() *Stats { return &h.stats }

// admit takes a line in, or says why not.
func (h *Hub) admit(l line, client Client) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.roomLocked(client); err != nil {
		h.stats.Refused.Add(1)
		return err
	}
	h.mu.lines[l] = client
	h.bindLocked(l, client.Revoked)
	h.mu.byKey[client.Key]++
	h.stats.Sockets.Add(1)
	return nil
}

// serverStops is the code of a line that comes when all are being sent away.
const serverStops = "server_stops"

// room says whether another line would be taken in.
func (h *Hub) room(client Client) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.roomLocked(client)
}

func (h *Hub) roomLocked(client Client) error {
	switch {
	case h.mu.draining:
		p := problem.New(503, serverStops, "the server is stopping").WithHint("connect again in a few seconds")
		p.RetryAfter = 2
		return p
	case len(h.mu.lines) >= h.opts.MaxSockets:
		p := problem.New(503, "too_many_sockets", "%d clients are listening already", h.opts.MaxSockets).
			WithHint("close connections that are not needed: one takes many subscriptions")
		p.RetryAfter = 10
		return p
	case client.Key != "" && h.mu.byKey[client.Key] >= h.opts.MaxSocketsPerKey:
		p := problem.New(429, "too_many_sockets", "this key has %d connections open already", h.opts.MaxSocketsPerKey).
			WithHint("close connections that are not needed: one takes many subscriptions")
		p.RetryAfter = 10
		return p
	}
	return nil
}

func (h *Hub) leave(l line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	client, ok := h.mu.lines[l]
	if !ok { // it was not taken in
		return
	}
	key := client.Key
	delete(h.mu.lines, l)
	h.unbindLocked(l, client.Revoked)
	if h.mu.byKey[key]--; h.mu.byKey[key] == 0 {
		delete(h.mu.byKey, key)
	}
	h.stats.Sockets.Add(-1)
	if h.mu.draining && len(h.mu.lines) == 0 {
		close(h.mu.empty)
	}
}

// rights are what several lines may do, until they end.
type rights struct {
	lines map[line]struct{}
	// unused is closed when there are no lines any more.
	unused chan struct{}
}

// bindLocked ends a line when revoked is closed. One goroutine watches for all lines of a key or session.
func (h *Hub) bindLocked(l line, revoked <-chan struct{}) {
	if revoked == nil {
		return
	}
	r := h.mu.rights[revoked]
	if r == nil {
		r = &rights{lines: map[line]struct{}{}, unused: make(chan struct{})}
		h.mu.rights[revoked] = r
		go func() {
			select {
			case <-revoked:
				h.endRights(revoked)
			case <-r.unused:
			}
		}()
	}
	r.lines[l] = struct{}{}
}

func (h *Hub) unbindLocked(l line, revoked <-chan struct{}) {
	r := h.mu.rights[revoked]
	if r == nil {
		return
	}
	if delete(r.lines, l); len(r.lines) == 0 {
		close(r.unused)
		delete(h.mu.rights, revoked)
	}
}

func (h *Hub) endRights(revoked <-chan struct{}) {
	h.mu.Lock()
	r := h.mu.rights[revoked]
	delete(h.mu.rights, revoked)
	h.mu.Unlock()
	if r != nil {
		for l := range r.lines { // nobody else has it now
			l.revoke()
		}
	}
}

// claim makes s the reader of a group, or reports that another one is.
func (h *Hub) claim(s *subscription, key groupKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.readers[key] != nil {
		return false
	}
	h.mu.readers[key] = s
	return true
}

func (h *Hub) release(s *subscription, key groupKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.readers[key] == s {
		delete(h.mu.readers, key)
	}
}

// drainPatience is how long clients may take to say goodbye.
const drainPatience = 3 * time.Second

// Drain sends everybody away and takes nobody in any more. It returns when all have left; those
// that don't within three seconds, or until ctx ends, are cut off.
func (h *Hub) Drain(ctx context.Context) error {
	h.mu.Lock()
	if h.mu.draining {
		h.mu.Unlock()
		return nil
	}
	h.mu.draining = true
	lines := make([]line, 0, len(h.mu.lines))
	for l := range h.mu.lines {
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		close(h.mu.empty)
	}
	h.mu.Unlock()
	for _, l := range lines {
		// spread out, so that they don't all come back at the same instant
		l.sendAway(500*time.Millisecond + rand.N(2*time.Second))
	}
	patience := time.NewTimer(drainPatience)
	defer patience.Stop()
	select {
	case <-h.mu.empty:
		return nil
	case <-patience.C:
	case <-ctx.Done():
	}
	for _, l := range lines {
		l.kill()
	}
	select {
	case <-h.mu.empty:
		return nil
	case <-time.After(drainPatience):
		return errors.New("some websockets did not end")
	}
}

// guard is deferred in every goroutine: a panic ends what it was about, not the server (I8).
func (h *Hub) guard(what string, failed func()) {
	if r := recover(); r != nil {
		h.stats.Panics.Add(1)
		h.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "panic in a live reader",
			slog.String("in", what), slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
		failed()
	}
}
