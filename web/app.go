package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"tidemark/storage/problem"
	"tidemark/web/api"
	"tidemark/web/auth"
)

// App is the server's edge. Make it with New, run it with Serve, end it with Shutdown.
type App struct {
	opts  Options
	fiber *fiber.App
	// stopping is closed when Shutdown begins: waits end, sockets are sent away.
	stopping chan struct{}
	stopped  atomic.Bool
	// base is every request's context; it ends when Shutdown gives up on what is in flight.
	base    context.Context
	abandon context.CancelCauseFunc
}

// errServerStops is the cause of what Shutdown cancels.
var errServerStops = errors.New("the server stops")

// New puts the routes together.
func New(opts Options) *App {
	a := &App{opts: opts.WithDefaults(), stopping: make(chan struct{})}
	a.base, a.abandon = context.WithCancelCause(context.Background())
	a.fiber = fiber.New(fiber.Config{
		BodyLimit:                    a.opts.BodyLimit + bodySlack,
		ReadBufferSize:               a.opts.MaxHeaderBytes,
		ReadTimeout:                  a.opts.ReadTimeout,
		WriteTimeout:                 a.opts.WriteTimeout,
		IdleTimeout:                  a.opts.IdleTimeout,
		Concurrency:                  a.opts.Concurrency,
		ErrorHandler:                 a.fail,
		DisableStartupMessage:        true,
		DisablePreParseMultipartForm: true,
		// StreamRequestBody stays off: Body() of a stream that breaks off is the error's text, and a
		// handler would take that for what the client sent. A body is bounded and read whole.
		CaseSensitive: true,
		StrictRouting: false,
		// X-Forwarded-* is read from these only.
		EnableTrustedProxyCheck: true,
		TrustedProxies:          a.opts.TrustedProxies,
	})
	a.fiber.Use(a.trace, a.guard)
	if a.opts.Auth != nil {
		a.fiber.Use(a.opts.Auth.Identify)
	}
	outer := auth.Count(a.fiber)
	a.fiber.Get("/healthz", a.healthz)
	a.fiber.Get("/readyz", a.readyz)
	if a.opts.Metrics != nil {
		a.fiber.Get("/metrics", a.metrics)
	}
	a.opts.API.Stopping = a.stopping
	api.Mount(a.fiber, a.opts.API)
	if a.opts.Live != nil {
		a.opts.Live.Mount(a.fiber)
	}
	if a.opts.Auth != nil {
		a.opts.Auth.Mount(a.fiber)
	}
	for _, mount := range a.opts.Mount {
		mount(a.fiber)
	}
	if a.opts.Auth != nil {
		a.opts.Auth.Guard(a.fiber, outer)
	}
	a.shell()
	return a
}

// Fiber is the app beneath, for tests that look at its routes.
func (a *App) Fiber() *fiber.App { return a.fiber }

// shell wraps what fasthttp calls: nothing that Fiber or a handler does may end the process.
func (a *App) shell() {
	inner := a.fiber.Handler()
	server := a.fiber.Server()
	server.CloseOnShutdown = true
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		defer func() {
			if r := recover(); r != nil {
				a.opts.Logger.Error("panic outside a handler", "panic", r, "stack", string(debug.Stack()))
				a.plain(ctx, problem.From(errors.New("panic")))
			}
		}()
		if !knownMethod(ctx.Method()) {
			a.plain(ctx, problem.New(405, "method_not_allowed", "%.20q is no method that this server knows", ctx.Method()).
				WithHint("use one of the methods in /openapi.json"))
			return
		}
		inner(ctx)
	}
	a.refuseUnread(server)
	refuse := server.ErrorHandler
	server.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		defer func() {
			if r := recover(); r != nil {
				a.opts.Logger.Error("panic in the answer to a bad request", "panic", r)
			}
		}()
		lingerOn(ctx.Conn()) // the client may still be sending: see lingeringConn
		refuse(ctx, err)
	}
}

// inChunks is how fasthttp tells of a body whose length is not announced.
const inChunks = -1

// refuseUnread has requests without a valid key refused before their bodies are read. fasthttp lets
// no handler run at that point, but it shows the header: a request without a key is given one that
// announces no body, so that its handler, and the answer, come at once. What the client sends as
// body is never taken for a request: the connection closes after the answer.
func (a *App) refuseUnread(server *fasthttp.Server) {
	if a.opts.Auth == nil {
		return
	}
	server.HeaderReceived = func(h *fasthttp.RequestHeader) (same fasthttp.RequestConfig) {
		n := h.ContentLength()
		if (n > 0 || n == inChunks) && a.opts.Auth.Authenticated(h) != nil {
			h.Del(fiber.HeaderExpect) // nothing to continue with
			h.SetContentLength(0)
			h.SetConnectionClose()
		}
		return same
	}
}

func knownMethod(m []byte) bool {
	switch string(m) {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT":
		return true
	}
	return false
}

// plain answers without Fiber.
func (a *App) plain(ctx *fasthttp.RequestCtx, p *problem.Problem) {
	id := newRequestID()
	ctx.Response.Reset()
	ctx.Response.Header.Set("X-Request-Id", id)
	ctx.SetStatusCode(p.Status)
	ctx.SetContentType(problem.ContentType)
	ctx.SetBody(p.JSON(id))
}

// Serve takes connections from ln until Shutdown; it closes ln. A listener that is not on
// loopback is refused: see CheckListen.
func (a *App) Serve(ln net.Listener) error {
	if err := CheckListen(ln.Addr().String(), a.opts.Auth.On()); err != nil {
		_ = ln.Close()
		return err
	}
	ln = lingeringListener{ln}
	if a.opts.TLS != nil {
		ln = tls.NewListener(ln, a.opts.TLS)
	}
	return a.fiber.Listener(ln)
}

// Shutdown refuses new requests, sends the sockets away, and returns when all that was in flight
// has been answered, or with ctx's error when that takes too long.
func (a *App) Shutdown(ctx context.Context) error {
	if a.stopped.Swap(true) {
		return nil
	}
	close(a.stopping)
	defer a.abandon(errServerStops)
	drained := make(chan error, 1)
	go func() {
		defer recoverTo(a.opts.Logger, "drain sockets")
		if a.opts.Live == nil {
			drained <- nil
			return
		}
		drained <- a.opts.Live.Drain(ctx)
	}()
	err := a.fiber.ShutdownWithContext(ctx)
	if drain := <-drained; err == nil {
		err = drain
	}
	return err
}

func recoverTo(log *slog.Logger, what string) {
	if r := recover(); r != nil {
		log.Error("panic", "what", what, "panic", r, "stack", string(debug.Stack()))
	}
}
