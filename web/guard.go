package web

import (
	"bytes"
	"net"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
)

// guard refuses what no handler should see: requests whose framing is in doubt, too many headers,
// names that are not ours (DNS rebinding), and pages of strangers.
func (a *App) guard(c *fiber.Ctx) error {
	h := &c.Request().Header
	if n := h.Len(); n > a.opts.MaxHeaders {
		c.Context().SetConnectionClose()
		return problem.New(431, "too_many_headers", "the request has %d headers; at most %d are taken", n, a.opts.MaxHeaders).
			WithHint("send fewer headers; large cookies of other programs on this host are a common reason")
	}
	if twoLengths(h.RawHeaders()) {
		c.Context().SetConnectionClose()
		return problem.New(400, "ambiguous_length", "the request has both Content-Length and Transfer-Encoding").
			WithHint("send one of the two")
	}
	if a.opts.Auth.On() {
		return c.Next() // a key opens what names and pages of strangers can't
	}
	if err := checkHost(string(h.Host())); err != nil {
		return err
	}
	if err := checkOrigin(c); err != nil {
		return err
	}
	return c.Next()
}

// twoLengths reports whether the headers hold both kinds of framing. Proxies and servers disagree
// on which one wins, which is how one request is smuggled inside another.
func twoLengths(raw []byte) bool {
	length, coding := false, false
	for line := range bytes.Lines(raw) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		name = bytes.TrimSpace(name)
		length = length || bytes.EqualFold(name, []byte("Content-Length"))
		coding = coding || bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	return length && coding
}

func checkHost(host string) error {
	if host == "" {
		return problem.New(400, "no_host", "the request has no Host header").
			WithHint("send Host: localhost, or use HTTP/1.1")
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	switch strings.ToLower(strings.Trim(name, "[]")) {
	case "localhost", "127.0.0.1", "::1":
		return nil
	}
	return problem.New(421, "foreign_host", "this server does not answer to the name %.100q", host).
		WithHint("without keys it answers to localhost, 127.0.0.1 and [::1] only; use one of these names in the address")
}

// checkOrigin refuses what a page of another origin sends: browsers add Origin to every upgrade
// and to every request that could change something.
func checkOrigin(c *fiber.Ctx) error {
	origin := string(c.Request().Header.Peek(fiber.HeaderOrigin))
	if origin == "" {
		return nil
	}
	scheme := "http"
	if c.Context().IsTLS() {
		scheme = "https"
	}
	u, err := url.Parse(origin)
	if err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, string(c.Request().Header.Host())) {
		return nil
	}
	return problem.New(403, "foreign_origin", "the request comes from a page of another origin, %.100q", origin).
		WithHint("without keys only this server's own pages and programs without an Origin header are served")
}
