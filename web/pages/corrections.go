package pages

import (
	"errors"
	"sync"
	"time"

	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/runtime"
)

const (
	// readFor is how long one page reads of a change stream; the next goes on there.
	readFor = 150 * time.Millisecond
	// mostFollowed is of how many views corrections are remembered.
	mostFollowed = 64
)

// corrections remembers the newest corrections of the views that somebody looks at. It reads each
// change stream once, from its beginning, and then what has come since.
type corrections struct {
	views Views
	mu    struct {
		sync.Mutex
		of map[string]*followed
	}
}

// followed is how far the change stream of one view was read, and what it held.
type followed struct {
	mu struct {
		sync.Mutex
		reader *runtime.ChangeReader
		list   []lateness // oldest first, the newest lateRead
	}
}

func newCorrections(views Views) *corrections {
	c := &corrections{views: views}
	c.mu.of = map[string]*followed{}
	return c
}

// of are the newest corrections of a view's rows that are known; whole says that they are those up to
// now.
func (c *corrections) of(view string) (list []lateness, whole bool) {
	c.mu.Lock()
	f := c.mu.of[view]
	if f == nil {
		if len(c.mu.of) >= mostFollowed {
			clear(c.mu.of)
		}
		f = &followed{}
		c.mu.of[view] = f
	}
	c.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for end := time.Now().Add(readFor); time.Now().Before(end); {
		if f.mu.reader == nil {
			var err error
			f.mu.list = nil
			if f.mu.reader, err = c.views.Changes(view, stream.Position{}); err != nil {
				return nil, true
			}
		}
		e, ok, err := f.mu.reader.Next()
		switch {
		case errors.As(err, new(*runtime.Gap)): // it has begun anew
			f.mu.reader = nil
			continue
		case err != nil:
			f.mu.reader = nil
			return nil, true
		case !ok:
			return append([]lateness(nil), f.mu.list...), true
		}
		f.mu.list = append(f.mu.list, corrected(e)...)
		if over := len(f.mu.list) - lateRead; over > 0 {
			f.mu.list = append(f.mu.list[:0], f.mu.list[over:]...)
		}
	}
	return append([]lateness(nil), f.mu.list...), false
}

// corrected are the corrections that an epoch holds: rows that changed after they were final, by how
// far event time had come past the end of their windows. A row's withdrawal and its new values are one.
func corrected(e *runtime.Epoch) (out []lateness) {
	if e.AsOf.Watermark == windows.NoWatermark {
		return nil
	}
	type change struct {
		key string
		at  stream.Sequence
	}
	seen := map[change]bool{}
	for i, status := range e.Changes.Status {
		one := change{string(e.Changes.Keys[i]), e.Changes.Sequences[i]}
		if status != windows.Corrected || seen[one] {
			continue
		}
		seen[one] = true
		l := lateness{at: time.UnixMicro(int64(e.AsOf.Watermark)).UTC()}
		if at := e.Changes.Times[i]; at != windows.NoTime {
			l.by = max(0, time.Duration(e.AsOf.Watermark-at)*time.Microsecond)
		}
		out = append(out, l)
	}
	return out
}
