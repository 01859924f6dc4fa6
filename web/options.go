package web

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"tidemark/storage/problem"
	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/web/live"
)

// Options say what the server serves and how much it takes.
type Options struct {
	// API is what the JSON endpoints call.
	API api.Deps
	// Live is the websocket hub; nil: there is no /v1/live.
	Live *live.Hub
	// Auth knows the keys; nil: there are none and never will be.
	Auth *auth.Keys
	// TLS, when not nil, is what Serve speaks.
	TLS *tls.Config
	// TrustedProxies are the addresses or networks whose X-Forwarded-Proto and -Host are believed.
	TrustedProxies []string
	// Mount adds routes of others: event posting, pages. Each is called once with the whole app,
	// behind trace and guard.
	Mount []func(fiber.Router)
	// Metrics is what /metrics shows; nil: the address is 404.
	Metrics prometheus.Gatherer
	// Ready says why the server is not ready yet, nil when it is. Nil: always ready.
	Ready func() error
	// SignIn is the page where browsers sign in: who asks for another one without a session is sent
	// there. Empty: there is none.
	SignIn string
	// ErrorPage may answer an error that a browser met outside /v1 as a page. It says whether it did.
	ErrorPage func(c *fiber.Ctx, p *problem.Problem, requestID string) bool
	// Logger gets access lines (debug) and errors. Nil: slog's default.
	Logger *slog.Logger

	// BodyLimit is the largest body in bytes; 0 means 16 MiB.
	BodyLimit int
	// MaxHeaderBytes bounds request line and headers together; 0 means 16 KiB.
	MaxHeaderBytes int
	// MaxHeaders bounds the number of headers; 0 means 100.
	MaxHeaders int
	// ReadTimeout bounds reading one request, WriteTimeout writing its answer, IdleTimeout the
	// quiet time between two requests. 0 means one minute, five minutes, two minutes.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// Concurrency is the most connections at once; 0 means 16,384. More get 503.
	Concurrency int
}

// bodySlack lies between the limit that handlers name in their answer and the one at which
// reading stops: who is a little over gets the better answer.
const bodySlack = 1 << 20

// WithDefaults returns a copy with the zero fields filled.
func (o Options) WithDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	fill(&o.BodyLimit, 16<<20)
	fill(&o.MaxHeaderBytes, 16<<10)
	fill(&o.MaxHeaders, 100)
	fill(&o.ReadTimeout, time.Minute)
	fill(&o.WriteTimeout, 5*time.Minute)
	fill(&o.IdleTimeout, 2*time.Minute)
	fill(&o.Concurrency, 16<<10)
	return o
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
