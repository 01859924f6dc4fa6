package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
	"tidemark/stream"
)

const (
	defaultQueryTime = 30 * time.Second
	maxQueryTime     = 10 * time.Minute
	defaultQueryRows = 10_000
	maxQuerySQL      = 32 << 10
	maxAnswerBytes   = 64 << 20
)

// queryBody is the body of POST /v1/query.
type queryBody struct {
	SQL     string            `json:"sql"`
	Params  []json.RawMessage `json:"params"`
	Timeout string            `json:"timeout"`
	MaxRows *int              `json:"max_rows"`
}

// query is POST /v1/query. The request's end is the query's end, also when the client goes away.
func (e *endpoints) query(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	format, kind, err := queryFormat(c.Get(fiber.HeaderAccept))
	if err != nil {
		return err
	}
	q, err := readQuery(c)
	if err != nil {
		return err
	}
	q.Format = format
	ctx, cancel := e.waiting(c, q.Timeout+5*time.Second)
	defer cancel()
	defer watchClient(c.Context().Conn(), cancel)()
	out := &boundedBuffer{}
	err = e.Query(ctx, q, out)
	switch {
	case errors.Is(err, errAnswerTooLarge):
		return problem.New(422, "too_large", "the answer is larger than %d bytes", maxAnswerBytes).
			WithHint("select fewer columns, aggregate, or lower max_rows")
	case errors.Is(err, context.Canceled) && e.stops():
		return serverStops()
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return problem.New(504, "timeout", "the query did not end within %s", stream.Duration(q.Timeout)).
			WithHint("narrow it, or give a longer timeout")
	case err != nil:
		return err
	}
	c.Set(fiber.HeaderContentType, kind)
	if format == "csv" || format == "parquet" {
		c.Set(fiber.HeaderContentDisposition, `attachment; filename="query.`+format+`"`)
	}
	return c.Send(out.Bytes())
}

func readQuery(c *fiber.Ctx) (Query, error) {
	var b queryBody
	if err := decode(c, &b, `send {"sql":"SELECT …","params":[],"timeout":"30s","max_rows":10000}`); err != nil {
		return Query{}, err
	}
	q := Query{SQL: b.SQL, Params: b.Params, Timeout: defaultQueryTime, MaxRows: defaultQueryRows}
	if strings.TrimSpace(b.SQL) == "" {
		return q, problem.New(400, "no_sql", "sql is empty").WithHint(`send {"sql":"SELECT count(*) FROM checkouts"}`)
	}
	if len(b.SQL) > maxQuerySQL {
		return q, problem.New(413, "sql_too_large", "the SQL text has %d bytes; at most %d are taken", len(b.SQL), maxQuerySQL).
			WithHint("long lists of values go into params or into a stream")
	}
	if b.Timeout != "" {
		d, err := stream.ParseDuration(b.Timeout)
		if err != nil || d == 0 || time.Duration(d) > maxQueryTime {
			return q, problem.New(400, "bad_timeout", "timeout is %.40q", b.Timeout).WithHint("give a time such as 30s, at most 10m")
		}
		q.Timeout = time.Duration(d)
	}
	if b.MaxRows != nil {
		if *b.MaxRows < 1 || *b.MaxRows > maxRows {
			return q, problem.New(400, "bad_max_rows", "max_rows is %d", *b.MaxRows).WithHint("give a number from 1 to %d", maxRows)
		}
		q.MaxRows = *b.MaxRows
	}
	return q, nil
}

// The media types of the binary forms of an answer.
const (
	arrowType   = "application/vnd.apache.arrow.stream"
	parquetType = "application/vnd.apache.parquet"
)

// queryFormat chooses the form of the answer by Accept: the first kind listed that there is.
func queryFormat(accept string) (format, kind string, err error) {
	if accept == "" {
		return "json", fiber.MIMEApplicationJSON, nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "application/json", "*/*", "application/*":
			return "json", fiber.MIMEApplicationJSON, nil
		case "application/x-ndjson", "application/jsonl":
			return "ndjson", "application/x-ndjson", nil
		case "text/csv", "text/*":
			return "csv", "text/csv; charset=utf-8", nil
		case arrowType:
			return "arrow", arrowType, nil
		case parquetType, "application/x-parquet", "application/parquet":
			return "parquet", parquetType, nil
		}
	}
	p := problem.New(406, "no_such_format", "no answer can be made as %.80q", accept).
		WithHint("accept application/json, application/x-ndjson, text/csv, " + arrowType + " or " + parquetType)
	p.Title = "No answer of this kind"
	return "", "", p
}

var errAnswerTooLarge = errors.New("the answer is too large")

// boundedBuffer holds an answer until it is whole, so that an error at its end is still an error.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxAnswerBytes {
		return 0, errAnswerTooLarge
	}
	return b.Buffer.Write(p)
}
