package live

import (
	"context"
	"time"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// reader reads a relation from a place on and makes messages of it. It knows nothing of who gets
// them. One goroutine uses it at a time.
type reader interface {
	// next makes the next message, of at most room entries, and reads nothing behind limit, if there
	// is one. It is nil when nothing came of what was read. caughtUp: there is no more now. A *Gap is
	// an error.
	next(room int, limit *stream.Position) (c *content, caughtUp bool, err error)
	// at is the place up to which everything was given out.
	at() stream.Position
	// reached reports whether the reader has come to where the relation stood when it was made.
	reached() bool
	progress() *content
	// arrived is signalled when there may be more.
	arrived() <-chan struct{}
	// due is the time until the reader has something to say though nothing has arrived.
	due() time.Duration
	// patience is the time until the reader may say something again.
	patience() time.Duration
	// skipGap tells a subscription of what is gone, and goes on behind it.
	skipGap(ctx context.Context, s *subscription) error
	// meet makes what tells apart one who was served by this reader from one who was served by another
	// one at the same place; nil: nothing. It must be told then.
	meet(other reader) *content
	// fork returns a reader that goes on alone from here.
	fork() (reader, error)
	close()
}

// watched is the part of a reader that is woken.
type watched struct {
	bell <-chan struct{}
	stop func()
}

func (w *watched) arrived() <-chan struct{} { return w.bell }
func (w *watched) close()                   { w.stop() }

// unfolded is the part of a reader that hands out what comes as it comes.
type unfolded struct{}

func (unfolded) due() time.Duration      { return time.Hour }
func (unfolded) patience() time.Duration { return 0 }
func (unfolded) meet(reader) *content    { return nil }

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stillThere says whether a relation is the one that was subscribed to: a stream or an alert that
// is made anew under the same name is another one. A view says so itself.
func (h *Hub) stillThere(name string, rel Relation) error {
	if rel.Kind == View {
		return nil
	}
	now, err := h.opts.Relations(name)
	if err == nil && now.ID != rel.ID {
		err = problem.New(404, "unknown_relation", "%s was deleted; there is another one of that name now", name).WithHint("subscribe again")
	}
	return err
}
