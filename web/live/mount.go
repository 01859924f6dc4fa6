package live

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// Subprotocol is the name of the protocol; clients may leave it out.
const Subprotocol = "tidemark.v1.json"

// Mount adds the routes of live. The app leaves connections that were upgraded to live for good:
// what it would keep of each of them (the request, its read buffer) is more than a subscriber needs.
func (h *Hub) Mount(app *fiber.App) {
	app.Server().KeepHijackedConns = true
	app.Get("/v1/live", h.open)
	app.Get("/v1/live/:name", h.openNamed)
}

// open upgrades to a websocket on which the client subscribes.
func (h *Hub) open(c *fiber.Ctx) error { return h.upgrade(c, nil) }

// openNamed subscribes by the address alone: over a websocket, or as server-sent events.
func (h *Hub) openNamed(c *fiber.Ctx) error {
	o, err := opFromAddress(c)
	if err != nil {
		return err
	}
	relation, err := h.opts.Relations(o.To)
	if err != nil {
		return err
	}
	if err := h.opts.Client(c).may(relation); err != nil {
		return err
	}
	if websocket.IsWebSocketUpgrade(headersOf(c)) {
		return h.upgrade(c, &o)
	}
	if strings.Contains(c.Get(fiber.HeaderAccept), "text/event-stream") {
		return h.eventStream(c, o)
	}
	return h.upgrade(c, &o) // says what is missing
}

// headersOf is the part of a request that says whether it is an upgrade.
func headersOf(c *fiber.Ctx) *http.Request {
	return &http.Request{Header: http.Header{
		"Connection": {c.Get(fiber.HeaderConnection)}, "Upgrade": {c.Get(fiber.HeaderUpgrade)},
	}}
}

// upgrade makes a websocket of the request and serves it until it ends. The guard of package web
// has looked at Host and Origin before.
func (h *Hub) upgrade(c *fiber.Ctx, first *op) error {
	if !websocket.IsWebSocketUpgrade(headersOf(c)) {
		c.Set(fiber.HeaderUpgrade, "websocket")
		p := problem.New(426, "upgrade_required", "this address speaks websocket").
			WithHint(`connect with a websocket client, or ask for one relation with "Accept: text/event-stream" at /v1/live/{name}`)
		p.Title = "Another protocol is needed"
		return p
	}
	client := h.opts.Client(c)
	if err := h.room(client); err != nil {
		return err
	}
	handshake := &http.Request{Method: c.Method(), Header: http.Header{}}
	for _, name := range []string{"Connection", "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Key", "Sec-Websocket-Protocol"} {
		for _, value := range c.Request().Header.PeekAll(name) {
			handshake.Header.Add(name, string(value))
		}
	}
	if err := mistake(handshake.Header); err != nil {
		return err
	}
	answer := http.Header{}
	if id, _ := c.Locals("request_id").(string); id != "" {
		answer.Set("X-Request-Id", id)
	}
	c.Context().HijackSetNoResponse(true) // gorilla answers
	c.Context().Hijack(func(conn net.Conn) {
		if hasRead(conn) {
			_ = conn.Close() // the client did not wait for the answer to its handshake
			return
		}
		if own, ok := conn.(interface{ UnsafeConn() net.Conn }); ok {
			conn = own.UnsafeConn()
		}
		h.serve(conn, handshake, answer, client, first)
	})
	return nil
}

// hasRead reports whether the server has read more of a connection than the request: that would be
// lost to who takes the connection over.
func hasRead(conn net.Conn) bool {
	var b [1]byte
	_ = conn.SetReadDeadline(longAgo)
	n, _ := conn.Read(b[:])
	_ = conn.SetReadDeadline(time.Time{})
	return n > 0
}

// mistake is what is wrong with a handshake.
func mistake(header http.Header) error {
	reason := ""
	if key, err := base64.StdEncoding.DecodeString(header.Get("Sec-Websocket-Key")); err != nil || len(key) != 16 {
		reason = "Sec-WebSocket-Key is not 16 bytes in base64"
	}
	if header.Get("Sec-Websocket-Version") != "13" {
		reason = "Sec-WebSocket-Version is not 13"
	}
	if reason == "" {
		return nil
	}
	return problem.New(400, "bad_handshake", "%s", reason).WithHint("send a websocket handshake of version 13 (RFC 6455)")
}

// upgrader makes websockets of connections whose handshake was looked at.
var upgrader = websocket.Upgrader{
	ReadBufferSize:  512,
	WriteBufferPool: &sync.Pool{}, // never used: messages go through the outbox
	Subprotocols:    []string{Subprotocol},
	CheckOrigin:     func(*http.Request) bool { return true },
	Error:           func(http.ResponseWriter, *http.Request, int, error) {},
}

// takenOver hands gorilla a connection that is ours already.
type takenOver struct {
	http.ResponseWriter
	conn net.Conn
}

func (t *takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReaderSize(t.conn, 16), bufio.NewWriterSize(t.conn, 512)), nil
}

// opFromAddress reads a subscription from path and query. Fiber's strings are overwritten after
// the handler, so all of them are copied.
func opFromAddress(c *fiber.Ctx) (op, error) {
	o := op{Op: "subscribe", To: strings.Clone(c.Params("name"))}
	o.ID = o.To
	var err error
	for k, v := range c.Context().QueryArgs().All() {
		value := string(v)
		number := func() int {
			n, e := strconv.Atoi(value)
			if (e != nil || n < 0) && err == nil {
				err = problem.New(400, "bad_parameter", "%s=%.40s is not a number from 0 on", k, value).WithHint("leave it out or give a number")
			}
			return n
		}
		switch string(k) {
		case "id":
			o.ID = value
		case "from":
			o.From = fromText(value)
		case "where":
			o.Where = value
		case "range":
			o.Range = rangeText(value)
		case "order":
			o.Order = value
		case "limit":
			o.Limit = number()
		case "fold":
			fold := value != "false" && value != "0"
			o.Fold = &fold
		case "group":
			o.Group = value
		case "max_in_flight":
			o.MaxInFlight = number()
		default:
			if err == nil {
				err = problem.New(400, "unknown_parameter", "there is no parameter %.60q here", k).
					WithHint("the options of subscribe are from, where, range, order, limit, fold, group, max_in_flight and id")
			}
		}
	}
	if err == nil && (o.ID == "" || len(o.ID) > maxID) {
		err = problem.New(400, "bad_parameter", "id must have 1 to 64 bytes").WithHint("leave it out")
	}
	return o, err
}

// fromText is from as it stands in an address: a word, a position, an instant, or JSON.
func fromText(text string) json.RawMessage {
	if strings.HasPrefix(text, "{") {
		return json.RawMessage(text)
	}
	if _, err := row.ParseTime([]byte(text)); err == nil {
		return append(row.AppendJSONString([]byte(`{"time":`), text), '}')
	}
	return row.AppendJSONString(nil, text)
}

// rangeText is range as it stands in an address: from,to or now-6h.
func rangeText(text string) json.RawMessage {
	if from, to, ok := strings.Cut(text, ","); ok {
		b := append(row.AppendJSONString([]byte{'['}, from), ',')
		return append(row.AppendJSONString(b, to), ']')
	}
	return row.AppendJSONString(nil, text)
}
