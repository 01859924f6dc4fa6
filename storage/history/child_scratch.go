//go:build cgo

package history

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"tidemark/storage/row"
)

// scratch loads rows into tables that only this request sees and runs one query over them. The
// tables are temporary: they end with the request's connection, and they hide relations of the
// same name. What they take counts into DuckDB's memory limit.
func (c *child) scratch(w http.ResponseWriter, r *http.Request) {
	out := &frameWriter{w: bufio.NewWriterSize(w, 64<<10)}
	err := c.runScratch(r, out)
	if err == nil {
		err = out.w.Flush()
	}
	if err == nil {
		return
	}
	e := queryError(r.Context(), err)
	if out.started {
		_ = writeJSONFrame(out.w, frameError, e)
		_ = out.w.Flush()
	} else {
		answerError(w, e)
	}
	endIfFatal(err)
}

func (c *child) runScratch(r *http.Request, out *frameWriter) error {
	ctx := r.Context()
	body := bufio.NewReaderSize(r.Body, 256<<10)
	kind, payload, err := readFrame(body)
	if err != nil || kind != frameHead {
		return badScratch("it begins with a frame of kind %q: %v", kind, err)
	}
	var head scratchHead
	if err := json.Unmarshal(payload, &head); err != nil {
		return badScratch("%v", err)
	}
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tables := make([][]row.Field, len(head.Tables))
	for i, t := range head.Tables {
		if tables[i], err = createScratch(ctx, conn, t); err != nil {
			return err
		}
	}
	for {
		kind, payload, err := readFrame(body)
		switch {
		case err != nil:
			return badScratch("%v", err)
		case kind == frameQuery:
			return queryOn(ctx, ctx, conn, queryRequest{SQL: string(payload)}, out)
		case kind != frameTable || len(payload) < 4:
			return badScratch("a frame of kind %q", kind)
		}
		n := binary.LittleEndian.Uint32(payload)
		if int(n) >= len(tables) {
			return badScratch("there is no table %d", n)
		}
		if err := fillScratch(ctx, conn, head.Tables[n].Name, tables[n], payload[4:]); err != nil {
			return err
		}
	}
}

func badScratch(format string, args ...any) error {
	return &wireError{Status: 400, Code: "bad_scratch", Detail: fmt.Sprintf("the request can't be read: "+format, args...), Position: -1}
}

func createScratch(ctx context.Context, conn *sql.Conn, t scratchTable) ([]row.Field, error) {
	fields := make([]row.Field, len(t.Fields))
	for i, f := range t.Fields {
		typ, err := row.ParseType(f.Type)
		if err != nil {
			return nil, badScratch("table %s, column %s: %v", t.Name, f.Name, err)
		}
		fields[i] = row.Field{Name: f.Name, Type: typ}
	}
	_, err := conn.ExecContext(ctx, "CREATE TEMP TABLE "+quote(t.Name)+" ("+columnList(fields)+")")
	return fields, err
}

func columnList(fields []row.Field) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = quote(f.Name) + " " + columnType(f.Type)
	}
	return strings.Join(list, ", ")
}

// fillScratch adds rows to a scratch table; what can't go directly goes the way that insertLocked sends it.
func fillScratch(ctx context.Context, conn *sql.Conn, name string, fields []row.Field, encoded []byte) error {
	_, batch, err := row.DecodeBatch(encoded)
	if err != nil {
		return badScratch("table %s: %v", name, err)
	}
	if len(batch.Cols) != len(fields) {
		return badScratch("table %s has %d columns, its rows %d", name, len(fields), len(batch.Cols))
	}
	staged, values, direct := staging(fields, fields, batch)
	if direct {
		return appendRows(conn, "", name, fields, fields, batch)
	}
	if _, err := conn.ExecContext(ctx, "CREATE OR REPLACE TEMP TABLE "+stage+" ("+columnList(staged)+")"); err != nil {
		return err
	}
	if err := appendRows(conn, "", stage, staged, fields, batch); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "INSERT INTO temp."+quote(name)+" SELECT "+strings.Join(values, ", ")+" FROM temp."+stage)
	return err
}
