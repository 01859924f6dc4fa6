package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"tidemark/storage/problem"
)

type queryCmd struct {
	serverFlags
	SQL     string        `arg:"" help:"One SELECT; - reads it from standard input."`
	Format  string        `help:"table, json, ndjson or csv." enum:"table,json,ndjson,csv" default:"table"`
	Timeout time.Duration `help:"Deadline of the query." default:"30s"`
	MaxRows int           `help:"Rows at most; the answer says when it was cut." default:"10000"`
}

func (*queryCmd) Help() string {
	return `  tidemark query "SELECT country, sum(amount) FROM checkouts GROUP BY ALL"
  tidemark query "FROM revenue ORDER BY window_start DESC LIMIT 10" --format csv`
}

var accepts = map[string]string{"table": "application/json", "json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv"}

func (c *queryCmd) Run(ctx context.Context) error {
	sql := c.SQL
	if sql == "-" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		sql = string(text)
	}
	body, err := json.Marshal(map[string]any{"sql": sql, "timeout": c.Timeout.String(), "max_rows": c.MaxRows})
	if err != nil {
		return err
	}
	resp, err := c.client().do(ctx, "POST", "/v1/query", body, map[string]string{"Accept": accepts[c.Format]})
	if err != nil {
		return explainSQL(sql, err)
	}
	defer resp.Body.Close()
	if c.Format != "table" {
		_, err = io.Copy(os.Stdout, resp.Body)
		return err
	}
	return printTable(os.Stdout, resp.Body)
}

// explainSQL shows where in the text a problem lies.
func explainSQL(sql string, err error) error {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return err
	}
	err = explain(p)
	if p.Position < 0 || p.Position > len(sql) {
		return err
	}
	start := strings.LastIndexByte(sql[:p.Position], '\n') + 1
	line, _, _ := strings.Cut(sql[start:], "\n")
	return fmt.Errorf("%w\n  %s\n  %s^", err, line, strings.Repeat(" ", len([]rune(sql[start:p.Position]))))
}

func printTable(w io.Writer, body io.Reader) error {
	var answer struct {
		Columns   []struct{ Name, Type string }
		Rows      []map[string]json.RawMessage
		Truncated bool
	}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i, c := range answer.Columns {
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, c.Name)
	}
	fmt.Fprintln(t)
	for _, r := range answer.Rows {
		for i, c := range answer.Columns {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, plainText(r[c.Name]))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if answer.Truncated {
		fmt.Fprintf(os.Stderr, "cut after %d rows; --max-rows raises the limit\n", len(answer.Rows))
	}
	return nil
}

// plainText is a JSON value without the quotes of a string, on one line.
func plainText(v json.RawMessage) string {
	if len(v) == 0 || bytes.Equal(v, []byte("null")) {
		return "NULL"
	}
	var s string
	if v[0] == '"' && json.Unmarshal(v, &s) == nil {
		return strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`, "\x1b", `\x1b`).Replace(s)
	}
	return string(v)
}
