package auth_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gofiber/fiber/v2"
	"go.uber.org/goleak"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/web"
	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/web/bind"
	"tidemark/web/live"
)

func TestMain(m *testing.M) {
	// fasthttp keeps one goroutine for the date of its answers for ever, and one a server for a while
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func openCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	store, err := kv.Open("data", kv.Options{FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	cat, err := catalog.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

func openKeys(t *testing.T, o auth.Options) *auth.Keys {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	cat := openCatalog(t)
	if _, err := cat.Put(catalog.Alert, "fraud", []byte(`{}`), 0); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.Open(cat, o)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// put makes or changes a key by the body of a PUT, and returns its text.
func put(t *testing.T, keys *auth.Keys, name, body string) string {
	t.Helper()
	d, err := auth.ParseDefinition([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := keys.Put(name, d)
	if err != nil {
		t.Fatal(err)
	}
	return a.Key
}

// world is a server with keys, and endpoints that stand for those of other packages.
type world struct {
	t    *testing.T
	keys *auth.Keys
	addr string
	log  *syncBuffer
	// text of each key by name
	text map[string]string
}

// definitions are the keys of a world.
var definitions = map[string]string{
	"ops":     `{"scopes":["admin"]}`,
	"writer":  `{"scopes":["ingest"],"streams":["sales_*"]}`,
	"reader":  `{"scopes":["read"],"streams":["sales_*"],"origins":["https://bi.example"]}`,
	"auditor": `{"scopes":["read"]}`,
	"pager":   `{"scopes":["alerts"]}`,
	"pages":   `{"scopes":["beacon"],"streams":["visits"],"origins":["https://shop.example"],"rate":1000}`,
	"slow":    `{"scopes":["read"],"rate":2}`,
}

func fakeEndpoints(r fiber.Router) {
	ok := func(c *fiber.Ctx) error { return c.JSON(fiber.Map{"served": true, "key": auth.KeyID(c)}) }
	r.Post("/v1/streams/:name/events", ok)
	r.Post("/v1/streams/:name/watermark", ok)
	r.Post("/v1/events", func(c *fiber.Ctx) error {
		if err := auth.MayPost(c, string(c.Body())); err != nil {
			return err
		}
		return ok(c)
	})
	r.Get("/v1/views/:name/rows", ok)
	r.Get("/v1/views/:name/rows/history", ok)
	r.Get("/v1/views/:name/rows/events", ok)
	r.Get("/v1/alerts/:name/log", ok)
	r.Put("/v1/views/:name", ok)
	r.Get("/", ok)
	r.Get("/v1/secret_thing", ok) // has no rule
}

// relations are those that sockets can name.
func relations(name string) (live.Relation, error) {
	switch {
	case strings.HasSuffix(name, "_view"):
		return live.Relation{Kind: live.View, Name: name, ID: 1}, nil
	case strings.HasSuffix(name, "_alert"):
		return live.Relation{Kind: live.Alert, Name: name, ID: 2}, nil
	}
	return live.Relation{}, problem.New(404, "unknown_relation", "there is no %s", name).WithHint("look again")
}

func serve(t *testing.T, o auth.Options, opts web.Options, names ...string) *world {
	t.Helper()
	w := &world{t: t, log: &syncBuffer{}, text: map[string]string{}}
	logger := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Logger = logger
	w.keys = openKeys(t, o)
	for _, name := range names {
		w.text[name] = put(t, w.keys, name, definitions[name])
	}
	opts.Logger, opts.Auth = logger, w.keys
	opts.API = api.Deps{Dashboards: openCatalog(t)}
	opts.Live = live.NewHub(live.Options{Relations: relations, Client: bind.Client(nil), Logger: logger, MaxSocketsPerKey: 3})
	opts.Mount = append(opts.Mount, fakeEndpoints)
	app := web.New(opts)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
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
	return w
}

// everyone is a world with all the keys.
func everyone(t *testing.T) *world {
	return serve(t, auth.Options{}, web.Options{}, "ops", "writer", "reader", "auditor", "pager", "pages", "slow")
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) code() string {
	var p struct{ Type string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return strings.TrimPrefix(p.Type, "/problems/")
}

// do sends one request on a connection of its own. key is a key's name, or its text.
func (w *world) do(method, path, key, body string, header http.Header) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, "http://"+w.addr+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v[0]
		}
		req.Header[k] = v
	}
	if text, ok := w.text[key]; ok {
		key = text
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return read(w.t, resp)
}

func read(t *testing.T, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// raw sends bytes, keeps the connection open, and reads one answer.
func (w *world) raw(request string) answer {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusContinue {
		return answer{status: resp.StatusCode}
	}
	return read(w.t, resp)
}
