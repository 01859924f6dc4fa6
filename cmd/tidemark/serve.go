package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
)

type serveCmd struct {
	serverOptions `embed:""`
}

func (*serveCmd) Help() string {
	return `  tidemark serve --data /var/lib/tidemark --listen 127.0.0.1:8080

Options also come from TIDEMARK_* variables (TIDEMARK_LOG_LEVEL=debug) and from DIR/tidemark.yaml.`
}

func (c *serveCmd) Run(ctx context.Context) error {
	o, from, err := c.load("./tidemark-data", os.Environ())
	if err != nil {
		return err
	}
	if c.PrintConfig {
		o.print(os.Stdout, from)
		return nil
	}
	return serve(ctx, o, false, func(addr net.Addr, s *service, logger *slog.Logger) {
		scheme := "http://"
		if o.TLSCert != "" {
			scheme = "https://"
		}
		logger.Info("listening", "address", scheme+addr.String(), "data", absolute(o.Data))
		if link := s.firstLink(logger); link != "" {
			fmt.Printf("\n  sign in, once, as an administrator: %s%s%s\n\n", scheme, addr, link)
		}
	})
}

// firstLink is a link that signs one browser in, at the first start with keys; else empty.
func (s *service) firstLink(logger *slog.Logger) string {
	shown := s.dir.File("sign-in-link-shown")
	if !s.keys.On() {
		return ""
	}
	if _, err := shown.Load(); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err := shown.Save(nil); err != nil {
		logger.Warn("the sign-in link can't be marked as shown: none is made", "err", err)
		return ""
	}
	return s.keys.OnceLink()
}

// serve runs a server until ctx ends; started is called once it listens.
func serve(ctx context.Context, o options, demo bool, started func(net.Addr, *service, *slog.Logger)) error {
	logger := newLogger(o)
	ln, err := listen(o.Listen)
	if err != nil {
		return err
	}
	s, err := openService(ctx, o, demo, logger)
	if err != nil {
		ln.Close()
		return err
	}
	if err := s.mayListen(o, logger); err != nil {
		return errors.Join(err, ln.Close(), s.closeStores())
	}
	started(ln.Addr(), s, logger)
	err = s.run(ctx, ln)
	logger.Info("stopped")
	return err
}

// newLogger writes to standard error as the options say.
func newLogger(o options) *slog.Logger {
	h := &slog.HandlerOptions{Level: o.LogLevel}
	var logger *slog.Logger
	if o.LogFormat == "json" {
		logger = slog.New(slog.NewJSONHandler(os.Stderr, h))
	} else {
		logger = slog.New(slog.NewTextHandler(os.Stderr, h))
	}
	slog.SetDefault(logger)
	return logger
}
