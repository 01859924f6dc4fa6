package live_test

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"

	"tidemark/storage/problem"
	"tidemark/web/live"
)

// keyed is a hub's option for one client, whose rights end when the channel is closed and who may
// not read views.
func keyed(revoked chan struct{}) live.Options {
	return live.Options{MaxSocketsPerKey: 2, Client: func(*fiber.Ctx) live.Client {
		return live.Client{Key: "1", Revoked: revoked, May: func(r live.Relation) error {
			if r.Kind == live.View {
				return problem.New(403, "missing_scope", "no views for you").WithHint("ask for the scope read")
			}
			return nil
		}}
	}}
}

func TestRevokedClientIsClosedInTheMiddleOfReading(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.send(2, 1)
	revoked := make(chan struct{})
	_, addr := w.start(t, keyed(revoked))
	c := dial(t, addr, "/v1/live/payments?from=earliest")
	c.want("subscribed")
	c.want("events")
	req, _ := http.NewRequest("GET", "http://"+addr+"/v1/live/payments", nil)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan() // subscribed is there
	close(revoked)
	for lines.Scan() { // ends with the stream
	}
	for {
		_, _, err := c.ReadMessage()
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			if closed.Code != 4401 {
				t.Errorf("close code %d", closed.Code)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRelationWithoutARightIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, keyed(nil))
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"revenue"}`)
	if m := c.want("error"); m.ID != "a" || m.Code != "missing_scope" {
		t.Errorf("%+v", m)
	}
	c.say(`{"op":"subscribe","id":"b","to":"payments"}`)
	c.want("subscribed")
	resp, err := http.Get("http://" + addr + "/v1/live/revenue")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("by the address alone: %d", resp.StatusCode)
	}
}

func TestConnectionsOfAKeyAreCountedAndFreed(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, keyed(nil))
	follow := func() (*http.Response, func()) {
		req, _ := http.NewRequest("GET", "http://"+addr+"/v1/live/payments?from=earliest", nil)
		req.Header.Set("Accept", "text/event-stream")
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp, func() { resp.Body.Close() }
	}
	_, endFirst := follow()
	_, endSecond := follow()
	third, end := follow()
	end()
	if third.StatusCode != 429 {
		t.Errorf("the third connection: %d", third.StatusCode)
	}
	endFirst()
	endSecond()
	for range 1000 { // until the server has seen that a connection ended: it writes to it
		w.send(1, 1)
		resp, end := follow()
		line, _ := bufio.NewReader(resp.Body).ReadString('\n')
		end()
		if resp.StatusCode == 200 && strings.HasPrefix(line, "id") {
			return
		}
	}
	t.Error("connections that ended still count")
}
