package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"tidemark/storage/problem"
	"tidemark/web/api"
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
		CaseSensitive:                true,
		StrictRouting:                false,
		// No proxy is trusted: X-Forwarded-* is not read.
		EnableTrustedProxyCheck: true,
	})
	a.fiber.Use(a.trace, a.guard)
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
	for _, mount := range a.opts.Mount {
		mount(a.fiber)
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
	refuse := server.ErrorHandler
	server.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		defer func() {
			if r := recover(); r != nil {
				a.opts.Logger.Error("panic in the answer to a bad request", "panic", r)
			}
		}()
		if c, ok := ctx.Conn().(*lingeringConn); ok {
			c.linger.Store(true) // the client may still be sending: see lingeringConn
		}
		refuse(ctx, err)
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
	if err := CheckListen(ln.Addr().String()); err != nil {
		_ = ln.Close()
		return err
	}
	return a.fiber.Listener(lingeringListener{ln})
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
