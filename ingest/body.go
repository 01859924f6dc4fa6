package ingest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tidemark/storage/problem"
)

// framing is how the events lie in a body.
type framing uint8

const (
	oneOrArray framing = iota // one JSON value: an object, or an array of objects
	lines                     // one object a line
)

// taken is the sentence about what bodies there may be.
const taken = "send application/json (an object or an array), application/x-ndjson (an object a line), application/cloudevents+json or " +
	"application/cloudevents-batch+json, in UTF-8, plain or with Content-Encoding gzip or zstd"

// framingOf reads the content type. No type and the form type, which plain curl -d sends, are JSON.
func framingOf(contentType string) (framing, error) {
	switch strings.TrimSpace(contentType) {
	case "", "application/json": // what most send, at once
		return oneOrArray, nil
	case "application/x-ndjson":
		return lines, nil
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return 0, unsupported("the content type %q can't be read", contentType)
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") && !strings.EqualFold(charset, "us-ascii") {
		return 0, unsupported("the charset %q is not taken", charset)
	}
	switch kind {
	case "application/json", "text/plain", "text/json", "application/x-www-form-urlencoded",
		"application/cloudevents+json", "application/cloudevents-batch+json":
		return oneOrArray, nil
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines":
		return lines, nil
	}
	return 0, unsupported("the content type %q is not taken", kind)
}

func unsupported(detail string, args ...any) *problem.Problem {
	return problem.New(415, "unsupported_body", detail, args...).WithHint(taken)
}

// open returns the body as it was before it was compressed.
func (o *Options) open(body []byte, encoding string) ([]byte, error) {
	if len(body) > o.MaxBody {
		return nil, problem.New(413, "too_large", "the body has %d bytes, at most %d are taken", len(body), o.MaxBody).
			WithHint("send fewer events in one request")
	}
	var r io.Reader
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, damaged("gzip", err)
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(o.MaxInflated)), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, damaged("zstd", err)
		}
		defer z.Close()
		r = z
	default:
		return nil, unsupported("the content encoding %q is not taken", encoding)
	}
	// The bound is on what comes out, counted while it does: a bomb is never inflated.
	var out bytes.Buffer
	out.Grow(min(4*len(body)+512, o.MaxInflated+1))
	_, err := out.ReadFrom(io.LimitReader(r, int64(o.MaxInflated)+1))
	switch {
	case out.Len() > o.MaxInflated, errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, problem.New(413, "too_large", "the body is larger than %d bytes when it is decompressed", o.MaxInflated).
			WithHint("send fewer events in one request")
	case err != nil:
		return nil, damaged(strings.ToLower(encoding), err)
	}
	return out.Bytes(), nil
}

func damaged(encoding string, err error) *problem.Problem {
	return problem.New(400, "bad_body", "the body is no complete %s: %v", encoding, err).
		WithHint("send it again, or leave Content-Encoding out when it is not compressed")
}
