//go:build cgo

package history

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/marcboeker/go-duckdb"

	"tidemark/storage/row"
)

// Rows are sent in frames of at most frameRows rows and about frameBytes bytes of text.
const (
	frameRows  = 2048
	frameBytes = 1 << 20
)

// query runs one query on a connection of its own and streams its rows.
func (c *child) query(w http.ResponseWriter, r *http.Request) {
	var req queryRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		answerError(w, &wireError{Status: 400, Code: "bad_query", Detail: err.Error(), Position: -1})
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), time.Duration(req.TimeoutMicros)*time.Microsecond)
	defer stop()
	c.mu.Lock()
	c.mu.running[req.ID] = stop
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.mu.running, req.ID)
		c.mu.Unlock()
	}()

	out := &frameWriter{w: bufio.NewWriterSize(w, 64<<10)}
	err := c.runQuery(ctx, r.Context(), req, out)
	if err == nil {
		err = out.w.Flush()
	}
	if err == nil {
		return
	}
	e := queryError(ctx, err)
	if out.started {
		_ = writeJSONFrame(out.w, frameError, e)
		_ = out.w.Flush()
	} else {
		answerError(w, e)
	}
	endIfFatal(err)
}

// frameWriter counts on errors being rare until the first frame is out.
type frameWriter struct {
	w       *bufio.Writer
	started bool
}

func (f *frameWriter) frame(kind byte, payload []byte) error {
	f.started = true
	return writeFrame(f.w, kind, payload)
}

func (f *frameWriter) json(kind byte, v any) error {
	f.started = true
	return writeJSONFrame(f.w, kind, v)
}

// wrapped is the query as a subquery; the text keeps lines of its own, so that a place in it is
// found again in an error.
func wrapped(before, sql, after string) string { return before + "(\n" + sql + "\n)" + after }

// runQuery runs under ctx, the query's time, and sends under the request's: how fast a client
// reads is not the query's fault.
func (c *child) runQuery(ctx, request context.Context, req queryRequest, out *frameWriter) error {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return queryOn(ctx, request, conn, req, out)
}

// queryOn is runQuery on a connection.
func queryOn(ctx, request context.Context, conn *sql.Conn, req queryRequest, out *frameWriter) error {
	req.SQL = onLines(req.SQL)
	args, err := parameters(req.Params)
	if err != nil {
		return err
	}
	return conn.Raw(func(dc any) error {
		dconn := dc.(*duckdb.Conn)
		columns, err := describe(ctx, dconn, req.SQL, args)
		if err != nil {
			return err
		}
		// The limit lies outside: one row more tells that there are more.
		after := " AS answer"
		if req.MaxRows > 0 {
			after += fmt.Sprintf(" LIMIT %d", req.MaxRows+1)
		}
		text := wrapped("SELECT "+selectList(columns)+" FROM ", req.SQL, after)
		rows, done, err := runSelect(ctx, dconn, text, args)
		if err != nil {
			return &placedError{err, text, req.SQL}
		}
		defer done()
		return sendRows(request, columns, rows, req.MaxRows, out)
	})
}

// describe asks for names and types of a query's columns. DuckDB gives columns of the same name
// numbers, so the names are distinct.
func describe(ctx context.Context, conn *duckdb.Conn, sql string, args []driver.NamedValue) ([]resultColumn, error) {
	text := wrapped("DESCRIBE FROM ", sql, "")
	rows, done, err := runSelect(ctx, conn, text, args)
	if err != nil {
		return nil, &placedError{err, text, sql}
	}
	defer done()
	var columns []resultColumn
	values := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(values)
		if err == io.EOF {
			return columns, nil
		}
		if err != nil {
			return nil, err
		}
		name, _ := values[0].(string)
		typ, _ := values[1].(string)
		c, err := newResultColumn(name, typ)
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
}

// runSelect runs one statement that gives rows. Two statements, or one that is no SELECT, are an
// error: whatever the gate let through, DuckDB is asked again what it understood (I1).
func runSelect(ctx context.Context, conn *duckdb.Conn, sql string, args []driver.NamedValue) (driver.Rows, func(), error) {
	prepared, err := conn.Prepare(sql)
	if err != nil {
		return nil, nil, err
	}
	stmt := prepared.(*duckdb.Stmt)
	if t, err := stmt.StatementType(); err != nil || t != duckdb.STATEMENT_TYPE_SELECT {
		stmt.Close()
		return nil, nil, errNotSelect
	}
	if n := stmt.NumInput(); n > len(args) {
		stmt.Close()
		return nil, nil, &wireError{
			Status: 422, Code: "missing_params", Position: -1,
			Detail: fmt.Sprintf("the query has %d parameters, %d values were given", n, len(args)), Hint: "give a value for each in params",
		}
	}
	rows, err := stmt.QueryContext(ctx, args)
	if err != nil {
		stmt.Close()
		return nil, nil, err
	}
	return rows, func() {
		rows.Close()
		stmt.Close()
	}, nil
}

var errNotSelect = &wireError{Status: 422, Code: "sql_not_allowed", Detail: "only a SELECT can be run here", Hint: "write one SELECT statement", Position: 0}

// sendRows sends columns, rows and the end. A full frame goes out as it fills.
func sendRows(ctx context.Context, columns []resultColumn, rows driver.Rows, maxRows int, out *frameWriter) error {
	head := queryHead{Columns: make([]wireField, len(columns)), Wire: make([]string, len(columns))}
	fields := make([]row.Field, len(columns))
	for i, c := range columns {
		head.Columns[i], head.Wire[i] = wireField{c.name, c.shown}, c.typ.String()
		fields[i] = row.Field{Name: c.name, Type: c.typ}
	}
	if err := out.json(frameHead, head); err != nil {
		return err
	}
	batch := row.NewBatch(fields, 0)
	values := make([]driver.Value, len(columns))
	var encoded []byte
	var end queryEnd
	size := 0
	send := func() error {
		if batch.Len == 0 {
			return nil
		}
		encoded = row.EncodeBatch(encoded[:0], fields, batch)
		batch.Reset()
		size = 0
		return out.frame(frameBatch, encoded)
	}
	for {
		err := rows.Next(values)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if maxRows > 0 && end.Rows == maxRows {
			end.Truncated = true
			break
		}
		for i := range columns {
			n, err := columns[i].append(batch.Cols[i], values[i])
			if err != nil {
				return err
			}
			size += n
		}
		batch.Len++
		end.Rows++
		if batch.Len >= frameRows || size >= frameBytes {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := send(); err != nil {
				return err
			}
		}
	}
	if err := send(); err != nil {
		return err
	}
	return out.json(frameEnd, end)
}

// parameters turns JSON values into what DuckDB binds: whole numbers exactly, others as DOUBLE.
// Text came into the query's tree before, where it is a literal that takes the type of its place.
func parameters(raw []json.RawMessage) ([]driver.NamedValue, error) {
	args := make([]driver.NamedValue, len(raw))
	for i, r := range raw {
		args[i].Ordinal, args[i].Name = i+1, strconv.Itoa(i+1)
		dec := json.NewDecoder(strings.NewReader(string(r)))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, badParameter(i, "is not JSON")
		}
		switch v := v.(type) {
		case nil, bool:
			args[i].Value = v
		case string:
			if strings.IndexByte(v, 0) >= 0 {
				return nil, badParameter(i, "holds a NUL character")
			}
			args[i].Value = v
		case json.Number:
			if b, ok := new(big.Int).SetString(v.String(), 10); ok {
				switch {
				case b.IsInt64():
					args[i].Value = b.Int64()
				case b.BitLen() < 128:
					args[i].Value = b
				default:
					return nil, badParameter(i, "is beyond HUGEINT")
				}
				continue
			}
			f, err := v.Float64()
			if err != nil {
				return nil, badParameter(i, "is beyond DOUBLE")
			}
			args[i].Value = f
		default:
			return nil, badParameter(i, "is an array or object")
		}
	}
	return args, nil
}

func badParameter(i int, what string) *wireError {
	return &wireError{
		Status: 422, Code: "bad_param", Position: -1, Detail: fmt.Sprintf("parameter %d %s", i+1, what),
		Hint: "parameters are numbers, text, true, false and null",
	}
}

// queryError says to the user what went wrong.
func queryError(ctx context.Context, err error) *wireError {
	var we *wireError
	if errors.As(err, &we) {
		return we
	}
	if ctx.Err() == context.DeadlineExceeded {
		return &wireError{Status: 504, Code: "deadline", Detail: "the query did not end in its time", Position: -1, Hint: deadlineHint}
	}
	if ctx.Err() != nil {
		return &wireError{Status: 499, Code: "cancelled", Detail: "the query was cancelled", Position: -1}
	}
	message := err.Error()
	var de *duckdb.Error
	errors.As(err, &de)
	switch {
	case isFatal(err):
		return &wireError{Status: 500, Code: "internal", Detail: "the query met a fault of DuckDB: " + plainMessage(message), Position: -1}
	case de != nil && de.Type == duckdb.ErrorTypeOutOfMemory, strings.Contains(message, "bad_alloc"):
		return tooLarge(plainMessage(message))
	}
	position := -1
	var pe *placedError
	if errors.As(err, &pe) {
		position = pe.position()
	}
	return &wireError{Status: 422, Code: "bad_sql", Detail: plainMessage(message), Position: position, Hint: "correct the query"}
}

// placedError knows the text that DuckDB's error points into, and the query within it.
type placedError struct {
	error
	text, sql string
}

func (e *placedError) Unwrap() error { return e.error }

// position is where the error lies in the query, or −1.
func (e *placedError) position() int {
	at := placeIn(e.text, e.Error()) - strings.Index(e.text, "(\n"+e.sql) - 2
	if at < 0 || at >= len(e.sql) {
		return -1
	}
	return at
}

const deadlineHint = "read less (a WHERE on time helps most), or give it more with \"timeout\""

func tooLarge(detail string) *wireError {
	return &wireError{
		Status: 422, Code: "too_large", Detail: "the query needs more memory than it may take: " + detail, Position: -1,
		Hint: "read less or group coarser, or start the server with more --history-memory",
	}
}

// isFatal says that DuckDB has given itself up.
func isFatal(err error) bool {
	s := err.Error()
	return strings.HasPrefix(s, "FATAL") || strings.HasPrefix(s, "INTERNAL") || strings.Contains(s, "database has been invalidated")
}
