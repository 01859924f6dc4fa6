package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"

	"github.com/gorilla/websocket"
)

// benchBroadcastCmd is what fanout is compared with: a server that can do nothing but send the same
// frames to everybody, each prepared once.
type benchBroadcastCmd struct {
	Listen      string `help:"Address, on loopback." required:""`
	Frames      string `help:"JSON file with the frames." type:"existingfile" required:""`
	Subscribers int    `help:"How many websockets are waited for before the first frame." required:""`
}

func (c *benchBroadcastCmd) Run(ctx context.Context) error {
	text, err := os.ReadFile(c.Frames)
	if err != nil {
		return err
	}
	var frames [][]byte
	if err := json.Unmarshal(text, &frames); err != nil {
		return err
	}
	at, err := netip.ParseAddrPort(c.Listen)
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("--listen %s is not an address of loopback", c.Listen)
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	var (
		mu    sync.Mutex
		conns []*websocket.Conn
		wg    sync.WaitGroup
	)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/live", func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		wg.Go(func() { // a client's messages are read, as a server must
			for {
				if _, _, err := conn.ReadMessage(); err != nil {
					return
				}
			}
		})
		mu.Lock()
		defer mu.Unlock()
		if conns = append(conns, conn); len(conns) == c.Subscribers {
			all := conns
			wg.Go(func() { broadcast(all, frames) })
		}
	})
	server := &http.Server{Handler: mux}
	stop := context.AfterFunc(ctx, func() {
		server.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			conn.Close()
		}
	})
	defer stop()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	wg.Wait()
	return nil
}

func broadcast(conns []*websocket.Conn, frames [][]byte) {
	for _, frame := range frames {
		message, err := websocket.NewPreparedMessage(websocket.TextMessage, frame)
		if err != nil {
			fmt.Fprintln(os.Stderr, "broadcast:", err)
			return
		}
		for _, conn := range conns {
			_ = conn.WritePreparedMessage(message) // who has gone gets nothing
		}
	}
}
