package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"tidemark/storage/problem"
	"tidemark/web"
	"tidemark/web/live"
)

func TestMain(m *testing.M) {
	// fasthttp keeps one goroutine for the date of its answers for ever, and one a server for a while
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2")) // ends within ten seconds
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// server is a running app.
type server struct {
	*web.App
	addr string
	t    *testing.T
}

func serve(t *testing.T, opts web.Options) *server {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = quiet
	}
	app := web.New(opts)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{app, ln.Addr().String(), t}
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := app.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// answer is what came back.
type answer struct {
	status  int
	header  http.Header
	body    string
	problem map[string]any
}

// do sends one request on a connection of its own.
func (s *server) do(method, path string, body string, header http.Header) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v[0]
		}
		req.Header[k] = v
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return read(s.t, resp)
}

func read(t *testing.T, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(b)}
	if kind := resp.Header.Get("Content-Type"); kind == problem.ContentType || kind == "application/json" && strings.HasPrefix(a.body, "{") {
		if err := json.Unmarshal(b, &a.problem); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
	}
	return a
}

// raw sends bytes and reads one answer.
func (s *server) raw(request string) answer {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(c, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatalf("%q: %v", request[:min(60, len(request))], err)
	}
	return read(s.t, resp)
}

func TestFasthttpIsNewEnoughToHijack(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`github\.com/valyala/fasthttp v1\.(\d+)\.`).FindSubmatch(mod)
	if m == nil {
		t.Fatal("go.mod does not name fasthttp")
	}
	// With 1.51, which Fiber asks for, the adaptor's response is no http.Hijacker: no websockets.
	if minor, _ := strconv.Atoi(string(m[1])); minor < 78 {
		t.Fatalf("fasthttp 1.%d; the adaptor hijacks from 1.78 on", minor)
	}
}

func panics(r fiber.Router) {
	r.Get("/panic", func(*fiber.Ctx) error { panic("a handler's bug") })
	r.Get("/fails", func(*fiber.Ctx) error { return errors.New("secret cause") })
	r.Get("/busy", func(*fiber.Ctx) error {
		p := problem.New(429, "busy", "too much at once").WithHint("wait")
		p.RetryAfter = 3
		return p
	})
	r.Post("/echo", func(c *fiber.Ctx) error { return c.Send(c.Request().Body()) })
}

func TestPanicIsAnAnswerAndTheServerGoesOn(t *testing.T) { // I1
	t.Parallel()
	var log strings.Builder
	s := serve(t, web.Options{Mount: []func(fiber.Router){panics}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a := s.do("GET", "/panic", "", nil)
	if a.status != 500 || a.problem["type"] != "/problems/internal" || strings.Contains(a.body, "bug") {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if got := s.do("GET", "/healthz", "", nil); got.status != 200 {
		t.Fatalf("afterwards: %d", got.status)
	}
	if id := a.header.Get("X-Request-Id"); id == "" || a.problem["request_id"] != id || !strings.Contains(log.String(), id) {
		t.Errorf("request id %q, body %v, log %s", id, a.problem["request_id"], log.String())
	}
}

func TestCausesStayInTheLog(t *testing.T) { // I3
	t.Parallel()
	var log strings.Builder
	s := serve(t, web.Options{Mount: []func(fiber.Router){panics}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a := s.do("GET", "/fails?key=hunter2", "", nil)
	if a.status != 500 || strings.Contains(a.body, "secret") || !strings.Contains(log.String(), "secret cause") || strings.Contains(log.String(), "hunter2") {
		t.Errorf("answer %s, log %s", a.body, log.String())
	}
	if a := s.do("GET", "/busy", "", nil); a.status != 429 || a.header.Get("Retry-After") != "3" {
		t.Errorf("got %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
}

func TestEveryAnswerIsSafeForBrowsers(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{})
	for _, path := range []string{"/healthz", "/nowhere"} {
		h := s.do("GET", path, "", nil).header
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("X-Request-Id") == "" || h.Get("Server") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestEdgeRefusesWithANextStep(t *testing.T) {
	t.Parallel()
	hub := live.NewHub(live.Options{Logger: quiet})
	s := serve(t, web.Options{Mount: []func(fiber.Router){panics}, BodyLimit: 1 << 20, Live: hub})
	get := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
	for _, test := range []struct {
		name, request string
		status        int
		code          string
	}{
		{"both lengths", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400, "ambiguous_length"},
		{"both lengths, the other way round", "POST /echo HTTP/1.1\r\nHost: localhost\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400, "ambiguous_length"},
		{"two lengths", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400, "bad_request"},
		{"negative length", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\nhello", 400, "bad_request"},
		{"bad chunk", "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", 400, "bad_request"},
		{"large header", get + "X-A: " + strings.Repeat("a", 20_000) + "\r\n\r\n", 431, "headers_too_large"},
		{"many headers", get + strings.Repeat("X-A: b\r\n", 150) + "\r\n", 431, "too_many_headers"},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", 400, ""},
		{"foreign host", "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "foreign_host"},
		{"foreign host that begins well", "GET /healthz HTTP/1.1\r\nHost: localhost.evil.example:8080\r\n\r\n", 421, "foreign_host"},
		{"foreign origin", get + "Origin: https://evil.example\r\n\r\n", 403, "foreign_origin"},
		{"null origin", get + "Origin: null\r\n\r\n", 403, "foreign_origin"},
		{"origin of another port", get + "Origin: http://localhost:1234\r\n\r\n", 403, "foreign_origin"},
		{"foreign origin on a post", "POST /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n", 403, "foreign_origin"},
		{"foreign origin on an upgrade", "GET /v1/live HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 403, "foreign_origin"},
		{"an upgrade of another version", "GET /v1/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 400, "bad_handshake"},
		{"no upgrade", "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 426, "upgrade_required"},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400, "bad_request"},
		{"HTTP/0.9", "GET /healthz\r\n\r\n", 400, "bad_request"},
		{"huge length", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\nhello", 400, "bad_request"},
		{"unknown method", "BREW /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed"},
		{"wrong method", "DELETE /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed"},
		{"nothing there", "GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "no_such_address"},
		{"long body, announced", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n" + strings.Repeat("x", 30_000_000), 413, "body_too_large"},
		{"long body, in chunks", "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("100000\r\n"+strings.Repeat("x", 1<<20)+"\r\n", 8) + "0\r\n\r\n", 413, "body_too_large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := *s
			s.t = t
			a := s.raw(test.request)
			if a.status != test.status || a.problem == nil {
				t.Fatalf("got %d %s %s", a.status, a.header.Get("Content-Type"), a.body)
			}
			if test.code != "" && a.problem["type"] != "/problems/"+test.code {
				t.Errorf("type %v", a.problem["type"])
			}
			if a.problem["hint"] == nil || a.problem["detail"] == "" || a.problem["title"] == "" || a.problem["request_id"] != a.header.Get("X-Request-Id") {
				t.Errorf("no next step in %s", a.body)
			}
		})
	}
}

func TestShortBodyIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{Mount: []func(fiber.Router){panics}, ReadTimeout: 200 * time.Millisecond})
	for ended, status := range map[bool]int{true: 400, false: 408} {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhello")
		if ended {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("ended %v: %v", ended, err)
		}
		if a := read(t, resp); a.status != status || a.problem["hint"] == nil {
			t.Errorf("ended %v: %d %s", ended, a.status, a.body)
		}
	}
}

func TestOwnOriginsAndNamesAreServed(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{})
	_, port, _ := net.SplitHostPort(s.addr)
	for _, host := range []string{"localhost", "LOCALHOST", "127.0.0.1", "[::1]"} {
		for _, origin := range []string{"", "http://" + host + ":" + port} {
			h := http.Header{"Host": {host + ":" + port}}
			if origin != "" {
				h["Origin"] = []string{origin}
			}
			if a := s.do("GET", "/healthz", "", h); a.status != 200 {
				t.Errorf("Host %s, Origin %q: %d %s", host, origin, a.status, a.body)
			}
		}
	}
}

func TestForwardedHeadersAreNotBelieved(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{})
	a := s.do("GET", "/healthz", "", http.Header{"X-Forwarded-Host": {"localhost"}, "Host": {"evil.example"}})
	if a.status != 421 {
		t.Errorf("got %d", a.status)
	}
	a = s.do("GET", "/healthz", "", http.Header{"X-Forwarded-Proto": {"https"}, "Origin": {"https://" + s.addr}})
	if a.status != 403 {
		t.Errorf("got %d", a.status)
	}
}

func TestOnlyLoopbackIsListenedOn(t *testing.T) { // I2
	t.Parallel()
	for address, ok := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:8080": true, "[::1]:0": true, "127.3.2.1:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.168.1.5:80": false, "example.com:80": false, "8080": false,
	} {
		if err := web.CheckListen(address, false); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestReadyTellsWhyNot(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{Ready: func() error { return errors.New("view revenue recovers") }})
	a := s.do("GET", "/readyz", "", nil)
	if a.status != 503 || !strings.Contains(a.body, "view revenue recovers") || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

func TestConcurrentNamesAreNotMixedUp(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{Mount: []func(fiber.Router){func(r fiber.Router) {
		r.Get("/name/:name", func(c *fiber.Ctx) error {
			n := strings.Clone(c.Params("name"))
			return c.SendString(n)
		})
	}}})
	done := make(chan error)
	const n = 1000
	for i := range n {
		go func() {
			want := fmt.Sprintf("stream_%d", i)
			resp, err := http.Get("http://" + s.addr + "/name/" + want)
			if err == nil {
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(b) != want {
					err = fmt.Errorf("%s is %s", want, b)
				}
			}
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestShutdownFinishesWhatIsInFlightAndSendsSocketsAway(t *testing.T) { // I5
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	hub := live.NewHub(live.Options{Logger: quiet, Relations: func(string) (live.Relation, error) { return live.Relation{}, errors.New("none") }})
	app := web.New(web.Options{Live: hub, Logger: quiet, Mount: []func(fiber.Router){func(r fiber.Router) {
		r.Get("/slow", func(c *fiber.Ctx) error {
			close(entered)
			<-leave
			return c.SendString("finished")
		})
	}}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ln) }()
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+ln.Addr().String()+"/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	slow := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String() + "/slow")
		if err != nil {
			slow <- err.Error()
			return
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		slow <- string(b)
	}()
	<-entered
	down := make(chan error, 1)
	go func() { down <- app.Shutdown(context.Background()) }()
	_, message, err := conn.ReadMessage()
	if err != nil || !strings.Contains(string(message), `"type":"reconnect","after_ms":`) {
		t.Fatalf("%s %v", message, err)
	}
	if _, _, err = conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
		t.Fatalf("closed with %v", err)
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("a new connection was taken")
	}
	close(leave)
	if got := <-slow; got != "finished" {
		t.Errorf("the request in flight got %q", got)
	}
	if err := <-down; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}
