package live

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// Wherever the kernel stops taking bytes, what is left is written later, and only that.
func TestWhatTheKernelLeavesIsWrittenLater(t *testing.T) {
	t.Parallel()
	h := NewHub(Options{})
	batch := []*content{
		{kind: "changes", rest: []byte(`,"changes":[1]}`), numbered: true},
		{kind: "progress", rest: []byte(`,"lag_ms":0}`)},
		{kind: "changes", rest: []byte(`,"changes":["` + strings.Repeat("x", 200) + `"]}`), numbered: true},
	}
	whole := func() (buf []byte, ends [maxBatch][2]int, s *subscription) {
		s = newSubscription(t.Context(), h, op{ID: "a"}, nil, Client{}, nil)
		for i, c := range batch {
			buf = s.appendStart(buf, c)
			ends[i][0] = len(buf)
			buf = append(buf, c.rest...)
			ends[i][1] = len(buf)
		}
		return buf, ends, s
	}
	want, _, _ := whole()
	for n := range len(want) + 1 {
		buf, ends, s := whole()
		ours, theirs := net.Pipe()
		o := newOutbox(h, ours, nil)
		o.mu.Lock()
		o.keepLocked(s, batch, buf, ends, n)
		clear(buf) // it is used again by others
		o.mu.Unlock()
		rest := make([]byte, len(want)-n)
		if _, err := io.ReadFull(theirs, rest); err != nil || !bytes.Equal(rest, want[n:]) {
			t.Fatalf("after %d bytes: %q, not %q (%v)", n, rest, want[n:], err)
		}
		o.finish(nil)
		<-o.done
		theirs.Close()
		if extra, _ := io.ReadAll(theirs); len(extra) > 0 {
			t.Fatalf("after %d bytes: %q too much", n, extra)
		}
	}
}

// What was begun is ended before the goodbye, and what was not begun is dropped: the reason of the
// close frame says where the reader stands.
func TestGoodbyeComesBehindTheFrameThatWasBegun(t *testing.T) {
	t.Parallel()
	h := NewHub(Options{})
	ours, theirs := net.Pipe()
	o := newOutbox(h, ours, nil)
	s := newSubscription(t.Context(), h, op{ID: "a"}, nil, Client{}, nil)
	first, second := "P1", "P2"
	for _, position := range []*string{&first, &second} {
		if v := o.offer(s, []*content{{kind: "changes", rest: fmt.Appendf(nil, `,"position":%q}`, *position), numbered: true, position: position}}); v != taken {
			t.Fatal(v)
		}
	}
	var header [2]byte
	if _, err := io.ReadFull(theirs, header[:]); err != nil { // the first one is on its way
		t.Fatal(err)
	}
	o.finish(func() []byte { return farewell{code: 4408, sub: s}.frames() })
	if v := o.offer(s, []*content{{kind: "changes", rest: []byte("}")}}); v != ended {
		t.Errorf("after the goodbye: %v", v)
	}
	body := make([]byte, header[1])
	if _, err := io.ReadFull(theirs, body); err != nil || string(body) != `{"type":"changes","id":"a","seq":1,"position":"P1"}` {
		t.Fatalf("%s %v", body, err)
	}
	if _, err := io.ReadFull(theirs, header[:]); err != nil || header[0] != 0x80|websocket.CloseMessage {
		t.Fatalf("%x %v", header, err)
	}
	reason := make([]byte, header[1])
	if _, err := io.ReadFull(theirs, reason); err != nil || string(reason[2:]) != `{"id":"a","position":"P1"}` {
		t.Errorf("%s %v", reason, err)
	}
	<-o.done
}

// Who is told that there is no room is told when there is, for as much as it has, and not before.
func TestRoomIsRoomForAllThatWasOffered(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	o := newOutbox(NewHub(Options{}), ours, nil)
	s := newSubscription(t.Context(), o.hub, op{ID: "a"}, nil, Client{}, nil)
	one := []*content{{kind: "progress", rest: []byte("}")}}
	n := 0
	for ; o.offer(s, one) == taken; n++ {
	}
	if n != maxWaiting {
		t.Errorf("%d messages were taken, not %d", n, maxWaiting)
	}
	room := o.room(s, maxBatch)
	select {
	case <-room:
		t.Fatal("there is none")
	default:
	}
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	for batch := slices.Repeat(one, maxBatch); o.offer(s, batch) == full; {
		<-o.room(s, maxBatch)
	}
	<-room
	o.kill()
	<-o.done
}
