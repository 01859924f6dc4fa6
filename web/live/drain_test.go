package live_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidemark/web/live"
)

// held is a listener whose connections are taken over when they may.
type held struct {
	net.Listener
	taken, may chan struct{}
}

func (h held) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	return heldConn{conn, h}, err
}

type heldConn struct {
	net.Conn
	held held
}

// SetReadDeadline with a time that is over is how the hub begins with a connection.
func (c heldConn) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && t.Before(time.Now()) {
		close(c.held.taken)
		<-c.held.may
	}
	return c.Conn.SetReadDeadline(t)
}

func TestASocketThatComesWhileTheOthersAreSentAwayIsSentAwayToo(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := held{ln, make(chan struct{}), make(chan struct{})}
	hub, addr := newWorld().startOn(t, h, live.Options{})
	go func() {
		defer close(h.may)
		<-h.taken // there was room for it
		if err := hub.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+addr+"/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, message, err := conn.ReadMessage()
	if err != nil || !strings.Contains(string(message), `"type":"reconnect"`) {
		t.Fatalf("%s %v", message, err)
	}
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
		t.Errorf("closed with %v", err)
	}
}
