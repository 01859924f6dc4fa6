package auth_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidemark/web"
	"tidemark/web/auth"
)

// dial opens a websocket; the status is that of the handshake.
func (w *world) dial(path, key string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response) {
	w.t.Helper()
	h := http.Header{}
	for k, v := range header {
		h[k] = v
	}
	if text, ok := w.text[key]; ok {
		key = text
	}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	d := websocket.Dialer{Subprotocols: protocols}
	conn, resp, err := d.Dial("ws://"+w.addr+path, h)
	if resp == nil {
		w.t.Fatal(err)
	}
	if conn != nil {
		w.t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	}
	return conn, resp
}

// say subscribes and returns the next message.
func say(t *testing.T, conn *websocket.Conn, id, to string) string {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","id":"`+id+`","to":"`+to+`"}`)); err != nil {
		t.Fatal(err)
	}
	_, message, err := conn.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

func closeCode(t *testing.T, conn *websocket.Conn) int {
	t.Helper()
	for {
		_, _, err := conn.ReadMessage()
		if c, ok := err.(*websocket.CloseError); ok {
			return c.Code
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSocketsTakeAKeyAsSubprotocol(t *testing.T) {
	t.Parallel()
	w := everyone(t)
	conn, resp := w.dial("/v1/live", "", nil, "tidemark.v1.json", "bearer."+w.text["auditor"])
	if conn == nil || conn.Subprotocol() != "tidemark.v1.json" || strings.Contains(resp.Header.Get("Sec-WebSocket-Protocol"), "tdm_") {
		t.Fatalf("%d", resp.StatusCode)
	}
	for name, test := range map[string]struct {
		key       string
		header    http.Header
		protocols []string
		path      string
		status    int
	}{
		"no key":                   {status: 401},
		"a bad subprotocol":        {protocols: []string{"bearer." + unknown}, status: 401},
		"a key that posts only":    {key: "writer", status: 403},
		"a page of a stranger":     {key: "auditor", header: http.Header{"Origin": {"https://evil.example"}}, status: 403},
		"a sandboxed page":         {key: "auditor", header: http.Header{"Origin": {"null"}}, status: 403},
		"a key in the address":     {path: "/v1/live?key=" + w.text["auditor"], status: 403},
		"a listed page":            {key: "reader", header: http.Header{"Origin": {"https://bi.example"}}, status: 101},
		"a name that is not its":   {key: "reader", path: "/v1/live/hr_view", status: 403},
		"an alert without a right": {key: "auditor", path: "/v1/live/fraud_alert", status: 403},
		"a view without a right":   {key: "pager", path: "/v1/live/sales_view", status: 403},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			path := test.path
			if path == "" {
				path = "/v1/live"
			}
			if _, resp := w.dial(path, test.key, test.header, test.protocols...); resp.StatusCode != test.status {
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
}

func TestNoRightToARelationIsAnErrorAndTheSocketStays(t *testing.T) {
	t.Parallel()
	w := everyone(t)
	conn, _ := w.dial("/v1/live", "reader", nil)
	if m := say(t, conn, "a", "hr_view"); !strings.Contains(m, `"type":"error"`) || !strings.Contains(m, `"id":"a"`) || !strings.Contains(m, "foreign_relation") {
		t.Error(m)
	}
	if m := say(t, conn, "b", "sales_alert"); !strings.Contains(m, "missing_scope") || !strings.Contains(m, "scope alerts") {
		t.Error(m)
	}
	if m := say(t, conn, "c", "sales_nothing"); !strings.Contains(m, "unknown_relation") {
		t.Error(m)
	}
}

func TestWhatAKeyHasOpenEndsWithIt(t *testing.T) { // I5
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, k *auth.Keys){
		"deleted": func(t *testing.T, k *auth.Keys) {
			if err := k.Delete("auditor"); err != nil {
				t.Error(err)
			}
		},
		"rotated": func(t *testing.T, k *auth.Keys) { put(t, k, "auditor", `{"rotate":true}`) },
		"changed": func(t *testing.T, k *auth.Keys) { put(t, k, "auditor", `{"streams":["a"]}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, auth.Options{}, web.Options{}, "ops", "auditor", "pager")
			other, _ := w.dial("/v1/live", "pager", nil)
			conn, _ := w.dial("/v1/live", "auditor", nil)
			if m := say(t, conn, "a", "nothing"); !strings.Contains(m, "unknown_relation") {
				t.Fatal(m)
			}
			put(t, w.keys, "auditor", `{"rate":5}`) // takes no right away
			if m := say(t, conn, "b", "nothing"); !strings.Contains(m, "unknown_relation") {
				t.Fatal(m)
			}
			change(t, w.keys)
			if code := closeCode(t, conn); code != 4401 {
				t.Errorf("close code %d", code)
			}
			if m := say(t, other, "a", "nothing"); !strings.Contains(m, "unknown_relation") {
				t.Errorf("the socket of another key: %s", m)
			}
		})
	}
}

func TestSocketsOfNobodyEndWhenKeysAreWanted(t *testing.T) {
	t.Parallel()
	w := serve(t, auth.Options{}, web.Options{})
	conn, _ := w.dial("/v1/live", "", nil)
	put(t, w.keys, "r", `{"scopes":["read"]}`)
	if m := say(t, conn, "a", "nothing"); !strings.Contains(m, "unknown_relation") {
		t.Fatal(m)
	}
	put(t, w.keys, "ops", `{"scopes":["admin"]}`)
	if code := closeCode(t, conn); code != 4401 {
		t.Errorf("close code %d", code)
	}
}

func TestOneKeyHasSoManySocketsAndNoMore(t *testing.T) {
	t.Parallel()
	w := everyone(t)
	for range 3 {
		conn, resp := w.dial("/v1/live", "auditor", nil)
		if conn == nil {
			t.Fatal(resp.StatusCode)
		}
		say(t, conn, "a", "nothing") // it is counted
	}
	_, resp := w.dial("/v1/live", "auditor", nil)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if conn, resp := w.dial("/v1/live", "pager", nil); conn == nil {
		t.Errorf("another key: %d", resp.StatusCode)
	}
}
