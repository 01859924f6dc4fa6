package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"tidemark/ingest"
	"tidemark/ingest/httpapi"
	"tidemark/migrations"
	"tidemark/storage"
	"tidemark/storage/backup"
	"tidemark/storage/catalog"
	"tidemark/storage/history"
	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/group"
	"tidemark/stream/pebblelog"
	"tidemark/web"
	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/web/bind"
	"tidemark/web/live"
	"tidemark/web/pages"
	"tidemark/windows/alert"
	"tidemark/windows/fate"
	"tidemark/windows/runtime"
	"tidemark/windows/verify"
)

// service is everything that a server is made of. open puts it together from the bottom up, close
// takes it apart from the top down.
type service struct {
	dir     *storage.Dir
	log     *pebblelog.Log
	history *history.History
	views   *runtime.Service
	proofs  *verify.Runs
	fates   *fate.Fates
	keys    *auth.Keys
	in      *ingest.Ingester
	app     *web.App

	stopViews context.CancelCauseFunc
	viewsDone chan error
	stopping  chan struct{}
}

// errStopped is why the views end when the server does.
var errStopped = errors.New("the server stops")

// ballast is what a start on a full disk has to free: enough for the store's new files.
const ballast = 64 << 20

// stopWithin bounds the end of a server: in-flight requests are finished, views commit their last
// epoch, sockets are sent away.
const stopWithin = 9 * time.Second

func openService(ctx context.Context, o options, demo bool, logger *slog.Logger) (s *service, err error) {
	s = &service{stopping: make(chan struct{})}
	defer func(half *service) {
		if err != nil {
			_ = half.closeStores()
		}
	}(s)
	share := shareOut(o.Memory)
	limitHeap(o.Memory)
	s.dir, err = storage.Open(o.Data, storage.Options{Logger: logger, Ballast: ballast, Migrate: migrations.Run, Store: kv.Options{
		CacheBytes: share.cache, MemTableBytes: share.memTable, AcceptLoss: o.AcceptLoss,
	}})
	if err != nil {
		return nil, err
	}
	if err := backup.Clean(s.dir); err != nil {
		return nil, err
	}
	cat, err := catalog.Open(s.dir.KV)
	if err != nil {
		return nil, err
	}
	if s.keys, err = auth.Open(cat, auth.Options{Logger: logger}); err != nil {
		return nil, err
	}
	speak, err := o.tls()
	if err != nil {
		return nil, err
	}
	minFree, err := minimumFree(o)
	if err != nil {
		return nil, err
	}
	var seen []pebblelog.Remembered
	err = runtime.EachSeen(s.dir.KV, cat, func(who string, p stream.Position) { seen = append(seen, pebblelog.Remembered{Who: who, Position: p}) })
	if err != nil {
		return nil, err
	}
	s.log, err = pebblelog.Open(s.dir.KV, pebblelog.Options{
		QueueBytes: int(share.queue), TailBytes: int(share.tail), Logger: logger, MinFree: minFree,
		Space:   func() (uint64, error) { return freeSpace(o.Data) },
		Witness: s.dir.File("witness"), AcceptLoss: o.AcceptLoss, Remembered: seen,
	})
	if err != nil {
		return nil, err
	}
	streams, err := stream.OpenRegistry(cat, s.log)
	if err != nil {
		return nil, err
	}
	s.history, err = history.Start(ctx, history.Options{Dir: s.dir.Path, MemoryLimit: o.HistoryMemory, Threads: o.HistoryThreads, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("start history: %w", err)
	}
	s.views, err = runtime.Open(runtime.Options{
		KV: s.dir.KV, Log: s.log, Registry: streams, Catalog: cat, Parse: s.history.ParseSQL, Sinks: []runtime.Sink{s.history}, Logger: logger, StateBytes: share.state,
	})
	if err != nil {
		return nil, err
	}
	s.proofs = verify.NewRuns(&verify.Verifier{
		Views: s.views, Log: s.log, Parse: s.history.ParseSQL, FromAST: s.history.SQLFromAST, Scratch: s.scratch, Dir: s.dir.Path,
	})
	s.fates = &fate.Fates{Views: s.views, Streams: streams, Log: s.log, Find: func(id stream.ID, value []byte) (stream.Place, bool, error) {
		return s.log.Lookup(id, ingest.IDHash(value))
	}}
	alerts := alert.New(s.views, s.dir.KV)
	acks := alert.NewAcks(s.dir.KV, s.log, cat)
	hub := live.NewHub(bind.Live(s.views, alerts, acks, live.Options{Logger: logger}))
	groups, err := s.openGroups(streams, logger)
	if err != nil {
		return nil, err
	}
	s.in = ingest.New(streams, s.log, ingest.Options{AutoCreate: o.AutoCreate, Groups: groups, Store: s.dir.KV})
	metrics := s.metrics(o, streams, hub, groups)
	page := pages.Deps{
		Streams: streams, Log: s.log, Views: s.views, Definitions: cat, Demo: demo, Address: o.Listen, Metrics: metrics, Keys: s.keys,
		Narrow: bind.Narrow(s.views), Shown: bind.Shown(s.views), Groups: groups.List,
		GroupLetters: func(id stream.ID, limit int) ([]stream.DeadLetter, error) {
			return groups.DeadLetters(id, "", group.Letter{}, limit)
		},
	}
	s.app = web.New(web.Options{
		API: api.Deps{
			Streams: streams, Log: s.log, Views: bind.Views(s.views), Alerts: bind.Alerts(alerts), Dashboards: cat,
			Groups: groups, Refused: s.in.Refused,
			Exists: bind.Exists(cat), Query: bind.Query(s.queries(), cat, s.views.Relations()), Verify: s.proofs.Ask, Verified: s.proofs.Last, Fate: s.fateAt, FateByID: s.fateByID, RowHistory: s.rowHistory, RowEvents: s.rowEvents, Explain: s.explain, Stopping: s.stopping,
			Links: s.keys, Older: bind.OlderRows(s.queries(), s.views, s.log),
		},
		Live: hub,
		Auth: s.keys, TLS: speak, TrustedProxies: o.TrustedProxies,
		Mount: []func(fiber.Router){
			func(r fiber.Router) {
				httpapi.Mount(r, s.in, httpapi.Options{Logger: logger, Scope: auth.KeyID, Allow: auth.MayPost})
			},
			func(r fiber.Router) { pages.Mount(r, page) },
			(&backups{dir: s.dir, logger: logger}).mount,
		},
		Metrics:   metrics,
		Ready:     s.ready,
		ErrorPage: page.ErrorPage,
		SignIn:    "/sign-in",
		Logger:    logger,
	})
	return s, nil
}

// queries are history's verbs as the endpoint for ad-hoc SQL calls them.
func (s *service) queries() bind.History {
	return bind.History{
		Parse: s.history.ParseSQL, FromAST: s.history.SQLFromAST, Gate: s.history.Gate,
		Fresh: func(ctx context.Context) error { return s.views.SinksAt(ctx, s.log.End()) },
		Run: func(ctx context.Context, r bind.Run, w io.Writer) error {
			_, err := s.history.Query(ctx, history.Query{
				SQL: r.SQL, Source: r.Source, Params: r.Params, MaxRows: r.MaxRows, Timeout: r.Timeout, Format: history.Format(r.Format),
			}, w)
			return err
		},
	}
}

// scratch is history's verb for tables of one request, as verify calls it.
func (s *service) scratch(ctx context.Context, tables []verify.Table, load func(put func(int, *row.Batch) error) (string, error), each func([]row.Field, *row.Batch) error) error {
	q := history.Scratch{Load: load}
	for _, t := range tables {
		q.Tables = append(q.Tables, history.ScratchTable(t))
	}
	_, err := s.history.Scratch(ctx, q, each)
	return err
}

func (s *service) fateAt(ctx context.Context, name string, p int32, o int64) (any, error) {
	return s.ownFate(ctx)(s.fates.At(ctx, name, stream.Partition(p), stream.Offset(o)))
}

func (s *service) fateByID(ctx context.Context, name, id string) (any, error) {
	return s.ownFate(ctx)(s.fates.ByID(ctx, name, id))
}

// ownFate leaves of an answer what who asks may know.
func (s *service) ownFate(ctx context.Context) func(*fate.Fate, error) (any, error) {
	return func(f *fate.Fate, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return bind.OwnViews(ctx, s.views.Catalog, f), nil
	}
}

func (s *service) rowHistory(ctx context.Context, view, key, cursor string, limit int) (any, error) {
	return s.fates.RowHistory(ctx, view, key, cursor, limit)
}

func (s *service) rowEvents(ctx context.Context, view, key string, limit int) (any, error) {
	if err := bind.MayReadBeneath(ctx, s.views, view); err != nil {
		return nil, err
	}
	return s.fates.RowEvents(ctx, view, key, limit)
}

func (s *service) explain(ctx context.Context, view string) (any, error) {
	return s.views.Explain(ctx, view)
}

func (s *service) ready() error {
	if !s.views.Ready() {
		return errors.New("views are being recovered")
	}
	return nil
}

// start lets the views run.
func (s *service) start() {
	ctx, stop := context.WithCancelCause(context.Background())
	s.stopViews, s.viewsDone = stop, make(chan error, 1)
	go func() { s.viewsDone <- s.views.Run(ctx) }()
}

// run serves until ctx ends, then stops from the source downwards.
func (s *service) run(ctx context.Context, ln net.Listener) error {
	s.start()
	served := make(chan error, 1)
	go func() { served <- s.app.Serve(ln) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	return errors.Join(err, s.close())
}

func (s *service) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	close(s.stopping)
	err := s.app.Shutdown(ctx)
	s.proofs.Close()
	s.stopViews(errStopped)
	select {
	case views := <-s.viewsDone:
		err = errors.Join(err, views)
	case <-ctx.Done():
		err = errors.Join(err, errors.New("the views did not end in time; what they had not committed is replayed at the next start"))
	}
	return errors.Join(err, s.closeStores())
}

func (s *service) closeStores() error {
	var err error
	s.keys.Close()
	if s.history != nil {
		err = errors.Join(err, s.history.Close())
	}
	if s.in != nil {
		err = errors.Join(err, s.in.Close())
	}
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.Close())
	}
	return err
}

// minimumFree is the free space below which writes are refused.
func minimumFree(o options) (uint64, error) {
	if o.MinFree > 0 {
		return uint64(o.MinFree), nil
	}
	size, err := diskSize(o.Data)
	return max(512<<20, size/20), err
}

// metrics collects what operators watch.
func (s *service) metrics(o options, streams *stream.Registry, hub *live.Hub, groups *group.Service) prometheus.Gatherer {
	r, share := prometheus.NewRegistry(), shareOut(o.Memory)
	r.MustRegister(&collector{service: s, streams: streams, hub: hub}, live.NewCollector(hub))
	r.MustRegister(&gauges{
		service: s, log: pebblelog.Options{QueueBytes: int(share.queue), TailBytes: int(share.tail)}.WithDefaults(), history: history.Options{}.WithDefaults(), cache: share.cache, path: o.Data,
	})
	r.MustRegister(s.keys, &fates{service: s, streams: streams, in: s.in, groups: groups})
	return r
}

// tls is what the server speaks, or nil.
func (o options) tls() (*tls.Config, error) {
	if o.TLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("--tls-cert, --tls-key: %v", err)}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// mayListen says whether the address may be served: others than loopback need keys. Nothing is
// served before.
func (s *service) mayListen(o options, logger *slog.Logger) error {
	if err := web.CheckListen(o.Listen, s.keys.On()); err != nil {
		return &usageError{err.Error()}
	}
	if web.CheckListen(o.Listen, false) != nil && o.TLSCert == "" && len(o.TrustedProxies) == 0 {
		logger.Warn("keys and data cross the network unencrypted: give --tls-cert and --tls-key, or a proxy with TLS as --trusted-proxies", "listen", o.Listen)
	}
	return nil
}

// listen opens the server's address; a port that is taken is an error that names the flag.
func listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: choose another address with --listen, such as --listen 127.0.0.1:0 for any free port", err)
	}
	return ln, nil
}

// absolute is a path as messages show it.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
