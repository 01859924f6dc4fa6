package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// change is one entry of a change stream as a client gets it.
type change struct {
	Op       string
	Row      rowMap
	Status   string
	Revision int
}

// liveMessage is a message of /v1/live.
type liveMessage struct {
	Type     string
	ID       string
	Position string
	Rows     []rowMap
	Statuses []string
	Changes  []change
	Alerts   []json.RawMessage
	Events   []json.RawMessage
	Code     string
	Message  string
	Seq      int
}

// dial opens a websocket and subscribes.
func (s *server) dial(subscribe rowMap) *websocket.Conn {
	s.t.Helper()
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/v1/live", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.WriteJSON(subscribe); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func readMessage(t *testing.T, conn *websocket.Conn) liveMessage {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var m liveMessage
	_, r, err := conn.NextReader()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(r)
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	if m.Type == "error" {
		t.Fatalf("live: %s %s", m.Code, m.Message)
	}
	return m
}

// changes reads the whole change stream of a view.
func (s *server) changes(view string) []change {
	s.t.Helper()
	conn := s.dial(rowMap{"op": "subscribe", "id": "a", "to": view, "from": "earliest", "fold": false})
	defer conn.Close()
	var all []change
	for {
		m := readMessage(s.t, conn)
		all = append(all, m.Changes...)
		if m.Type == "progress" {
			return all
		}
	}
}
