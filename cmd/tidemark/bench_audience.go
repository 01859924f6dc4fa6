package main

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// audience is many subscribers of one view, each with a goroutine that reads. The parts of a
// benchmark follow each other: begin, what is sent, finished.
type audience struct {
	subscribers []*subscriber
	first       *subscriber // keeps its frames
	readers     sync.WaitGroup
	part        atomic.Pointer[part]
}

// part is one part of a benchmark.
type part struct {
	goal    int64 // the request number that ends it
	delay   func(newest int64, at time.Time) (time.Duration, bool)
	waiting atomic.Int64 // subscribers that have not seen the goal
	done    chan struct{}
}

type subscriber struct {
	conn   *websocket.Conn
	frames int64
	delays []time.Duration
	kept   [][]byte
	keeps  bool
	seen   atomic.Int64
	moved  chan struct{} // something came; of one that keeps
	failed atomic.Pointer[error]
}

// openAudience opens the websockets; from "" is for a server that takes no subscriptions.
func openAudience(ctx context.Context, addr string, n int, from string) (*audience, error) {
	a := &audience{}
	for range n {
		subscriptions := 1
		if from == "" {
			subscriptions = 0
		}
		conn, err := subscribe(ctx, addr, websocket.DefaultDialer, from, subscriptions)
		if err != nil {
			a.close()
			return nil, err
		}
		s := &subscriber{conn: conn, moved: make(chan struct{}, 1)}
		s.seen.Store(-1)
		a.subscribers = append(a.subscribers, s)
		if from != "" {
			if err := subscribed(conn); err != nil {
				a.close()
				return nil, err
			}
		}
	}
	a.first = a.subscribers[0]
	a.first.keeps = true
	for _, s := range a.subscribers {
		a.readers.Go(func() { a.read(s) })
	}
	return a, nil
}

func (a *audience) close() {
	for _, s := range a.subscribers {
		s.conn.Close()
	}
	a.readers.Wait()
}

// begin starts a part; no frame of it may be on its way yet.
func (a *audience) begin(goal int64, delay func(int64, time.Time) (time.Duration, bool)) {
	for _, s := range a.subscribers {
		s.frames, s.delays, s.kept = 0, nil, nil
	}
	p := &part{goal: goal, delay: delay, done: make(chan struct{})}
	p.waiting.Store(int64(len(a.subscribers)))
	a.part.Store(p)
}

func (a *audience) read(s *subscriber) {
	for {
		_, frame, err := s.conn.ReadMessage()
		if err != nil {
			s.failed.Store(&err)
			return
		}
		at := time.Now()
		if !bytes.Contains(frame, []byte(`"changes":`)) {
			continue // progress
		}
		p, number := a.part.Load(), newest(frame)
		if p == nil || number < 0 {
			continue
		}
		s.frames++
		if s.keeps {
			s.kept = append(s.kept, frame)
		}
		if p.delay != nil {
			if d, ok := p.delay(number, at); ok {
				s.delays = append(s.delays, d)
			}
		}
		s.seen.Store(number)
		if s.keeps {
			select {
			case s.moved <- struct{}{}:
			default:
			}
		}
		if number == p.goal && p.waiting.Add(-1) == 0 {
			close(p.done)
		}
	}
}

// await waits until the subscriber, one that keeps, has seen a request.
func (s *subscriber) await(ctx context.Context, number int64) error {
	patience := time.NewTimer(benchPatience)
	defer patience.Stop()
	for s.seen.Load() < number {
		select {
		case <-s.moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return s.missing()
		}
	}
	return nil
}

func (s *subscriber) missing() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return errors.New("frames are missing")
}

// finished waits until every subscriber has seen the goal.
func (a *audience) finished(ctx context.Context) error {
	select {
	case <-a.part.Load().done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(benchPatience):
		for _, s := range a.subscribers {
			if s.failed.Load() != nil {
				return s.missing()
			}
		}
		return errors.New("frames are missing")
	}
}

// delivered is how many frames of the part all got together.
func (a *audience) delivered() int64 {
	n := int64(0)
	for _, s := range a.subscribers {
		n += s.frames
	}
	return n
}

// delays are those of all frames of the part.
func (a *audience) delays() []time.Duration {
	var list []time.Duration
	for _, s := range a.subscribers {
		list = append(list, s.delays...)
	}
	return list
}
