package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

type tailCmd struct {
	serverFlags
	Name   string `arg:"" help:"Name of a stream, view or alert."`
	Group  string `help:"Consumer group: goes on from its last acknowledgement, also after a restart."`
	From   string `help:"snapshot, latest, earliest, a position, or an RFC 3339 instant; by default snapshot for views, latest for streams, earliest for alerts." default:""`
	Where  string `help:"Only rows of the view for which this holds."`
	Frames bool   `help:"Print whole messages instead of one event, change or alert a line."`
}

func (*tailCmd) Help() string {
	return `Prints one JSON document a line and goes on after interruptions of the server without a gap. With
--group every line is acknowledged once it is written, so a line may come twice after a crash of
tail itself and never goes missing.

  tidemark tail revenue
  tidemark tail card_velocity --group fraud | ./block_card`
}

// tailMessage is what tail needs of a message of /v1/live.
type tailMessage struct {
	Type      string
	Position  string
	Message   string
	Code      string
	Retryable bool
	AfterMS   int `json:"after_ms"`
	Rows      []json.RawMessage
	Statuses  []string
	Changes   []json.RawMessage
	Events    []json.RawMessage
	Alerts    []json.RawMessage
	Oldest    string
	More      bool
}

// tailer follows one relation over as many connections as it takes.
type tailer struct {
	tailCmd
	position string
	out      *bufio.Writer
}

func (c *tailCmd) Run(ctx context.Context) error {
	t := &tailer{tailCmd: *c, out: bufio.NewWriterSize(os.Stdout, 1<<16)}
	pause := 200 * time.Millisecond
	for {
		heard, err := t.connection(ctx)
		var final *finalError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &final):
			return err
		}
		if heard {
			pause = 200 * time.Millisecond
		}
		fmt.Fprintf(os.Stderr, "tail: %v; connecting again\n", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// finalError is one that trying again does not heal.
type finalError struct{ text string }

func (e *finalError) Error() string { return e.text }

// connection runs one websocket until it ends; heard says whether the server answered.
func (t *tailer) connection(ctx context.Context) (heard bool, err error) {
	header := http.Header{}
	if t.Key != "" {
		header.Set("Authorization", "Bearer "+t.Key)
	}
	address := "ws" + strings.TrimPrefix(strings.TrimRight(t.Server, "/"), "http") + "/v1/live"
	conn, resp, err := websocket.DefaultDialer.DialContext(ctx, address, header)
	if resp != nil && resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != 429 {
		return false, &finalError{fmt.Sprintf("the server refused the connection: %s", resp.Status)}
	}
	if err != nil {
		return false, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	subscribe := map[string]any{"op": "subscribe", "id": "t", "to": t.Name, "fold": false}
	from := t.From
	if t.position != "" {
		from = t.position
	}
	if at, err := time.Parse(time.RFC3339Nano, from); err == nil {
		subscribe["from"] = map[string]string{"time": at.UTC().Format(time.RFC3339Nano)}
	} else if from != "" {
		subscribe["from"] = from
	}
	if t.Group != "" {
		subscribe["group"] = t.Group
	}
	if t.Where != "" {
		subscribe["where"] = t.Where
	}
	if err := conn.WriteJSON(subscribe); err != nil {
		return false, err
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(45 * time.Second)); err != nil {
			return heard, err
		}
		_, frame, err := conn.ReadMessage()
		if err != nil {
			return heard, closeReason(err)
		}
		heard = true
		if err := t.take(conn, frame); err != nil {
			return heard, err
		}
	}
}

// closeReason makes close codes that will not heal final.
func closeReason(err error) error {
	var c *websocket.CloseError
	if errors.As(err, &c) {
		switch c.Code {
		case 4400, 4401, 4403:
			return &finalError{fmt.Sprintf("the server closed the connection: %d %s", c.Code, c.Text)}
		case 4409:
			return fmt.Errorf("another reader holds the group: %s", c.Text)
		}
	}
	return err
}

// take prints one message, and acknowledges it once it is written.
func (t *tailer) take(conn *websocket.Conn, frame []byte) error {
	var m tailMessage
	if err := json.Unmarshal(frame, &m); err != nil {
		return err
	}
	switch m.Type {
	case "error":
		if !m.Retryable {
			return &finalError{m.Message}
		}
		return errors.New(m.Message)
	case "gap":
		fmt.Fprintf(os.Stderr, "tail: the position is gone; going on at %s\n", m.Oldest)
		t.position = ""
	}
	data := len(m.Changes)+len(m.Events)+len(m.Alerts) > 0
	if t.Frames {
		t.out.Write(frame)
		t.out.WriteByte('\n')
	} else {
		t.lines(m)
	}
	if err := t.out.Flush(); err != nil {
		return &finalError{err.Error()} // whoever read us has gone
	}
	if m.Position != "" && !m.More {
		t.position = m.Position
	}
	if t.Group != "" && data {
		return conn.WriteJSON(map[string]string{"op": "ack", "id": "t", "position": m.Position})
	}
	return nil
}

func (t *tailer) lines(m tailMessage) {
	for i, r := range m.Rows {
		status := ""
		if i < len(m.Statuses) {
			status = m.Statuses[i]
		}
		fmt.Fprintf(t.out, `{"op":"+","row":%s,"status":%q}`+"\n", r, status)
	}
	for _, list := range [][]json.RawMessage{m.Changes, m.Events, m.Alerts} {
		for _, x := range list {
			t.out.Write(x)
			t.out.WriteByte('\n')
		}
	}
}
