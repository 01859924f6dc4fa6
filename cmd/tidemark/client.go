package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"tidemark/storage/problem"
)

// serverFlags are what every command has that talks to a server.
type serverFlags struct {
	Server string `help:"Address of the server." default:"http://127.0.0.1:8080" env:"TIDEMARK_SERVER"`
	Key    string `help:"API key, when the server wants one." env:"TIDEMARK_KEY"`
}

// client talks to a server.
type client struct {
	base string
	key  string
	http *http.Client
}

func (f serverFlags) client() *client {
	return &client{base: strings.TrimRight(f.Server, "/"), key: f.Key, http: &http.Client{Timeout: 5 * time.Minute}}
}

// call sends a request and decodes a JSON answer into out (when not nil). A problem document
// comes back as *problem.Problem.
func (c *client) call(ctx context.Context, method, path string, body []byte, headers map[string]string, out any) error {
	resp, err := c.do(ctx, method, path, body, headers)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// do sends a request; any status from 400 on is a *problem.Problem.
func (c *client) do(ctx context.Context, method, path string, body []byte, headers map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w (is a server running? start one with: tidemark serve)", err)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return nil, problemOf(resp, text)
}

// problemOf reads a problem document, or makes one of whatever was answered.
func problemOf(resp *http.Response, text []byte) *problem.Problem {
	var doc struct{ Type, Detail, Hint string }
	p := problem.New(resp.StatusCode, "http", "%s", resp.Status)
	if json.Unmarshal(text, &doc) == nil && doc.Detail != "" {
		p.Code = strings.TrimPrefix(doc.Type, "/problems/")
		p.Detail, p.Hint = doc.Detail, doc.Hint
	}
	if s := resp.Header.Get("Retry-After"); s != "" {
		fmt.Sscan(s, &p.RetryAfter)
	}
	return p
}
