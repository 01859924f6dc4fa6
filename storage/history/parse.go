//go:build cgo

package history

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	_ "github.com/marcboeker/go-duckdb" // the driver "duckdb"

	"tidemark/storage/problem"
)

// MaxSQLBytes bounds a SQL text of a user.
const MaxSQLBytes = 32 << 10

// ParseError says why a text is not one SELECT. It unwraps to a *problem.Problem.
type ParseError struct {
	Message string
	// Position is a byte offset in the text, or −1.
	Position int
	status   int
	code     string
	hint     string
}

func (e *ParseError) Error() string { return e.Message }

// Where is Position, for packages that don't know this one.
func (e *ParseError) Where() int { return e.Position }

// Unwrap returns the error as users see it.
func (e *ParseError) Unwrap() error {
	return problem.New(e.status, e.code, "%s", e.Message).WithHint("%s", e.hint).At(e.Position)
}

func notSQL(position int, message, hint string) *ParseError {
	return &ParseError{Message: message, Position: position, status: 422, code: "bad_sql", hint: hint}
}

// Parser turns SQL into DuckDB's tree and back. It holds no data and is safe for concurrent use;
// one text is parsed at a time, about half a millisecond each.
type Parser struct {
	db        *sql.DB
	serialize *sql.Stmt
	write     *sql.Stmt
}

// NewParser opens an empty DuckDB in this process that takes at most memory bytes; 0 means 64 MiB.
func NewParser(memory int64) (*Parser, error) {
	if memory <= 0 {
		memory = 64 << 20
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, fmt.Errorf("open the SQL parser: %w", err)
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	p := &Parser{db: db}
	if err := p.prepare(memory); err != nil {
		db.Close()
		return nil, fmt.Errorf("open the SQL parser: %w", err)
	}
	return p, nil
}

func (p *Parser) prepare(memory int64) (err error) {
	for _, s := range settings(memory, 1) {
		if _, err := p.db.Exec(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	if p.serialize, err = p.db.Prepare("SELECT json_serialize_sql($1::VARCHAR)::VARCHAR"); err != nil {
		return err
	}
	p.write, err = p.db.Prepare("SELECT json_deserialize_sql($1::JSON)")
	return err
}

// Close frees the parser.
func (p *Parser) Close() error { return p.db.Close() }

// ParseSQL gives DuckDB's tree of a text as JSON: {"error":false,"statements":[{"node":…}]}.
// The error is a *ParseError.
func (p *Parser) ParseSQL(text string) ([]byte, error) {
	if len(text) > MaxSQLBytes {
		return nil, &ParseError{
			Message: fmt.Sprintf("the SQL text has %d bytes, the limit is %d", len(text), MaxSQLBytes), Position: -1,
			status: 413, code: "sql_too_long", hint: "shorten the text; long lists of values belong in a stream",
		}
	}
	return p.parse(text)
}

// parse is ParseSQL without a bound, for texts that the planner wrote.
func (p *Parser) parse(text string) ([]byte, error) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, notSQL(i, "the SQL text holds a NUL byte", "remove it")
	}
	if !utf8.ValidString(text) {
		return nil, notSQL(invalidAt(text), "the SQL text is not UTF-8", "send it as UTF-8")
	}
	var out string
	if err := p.serialize.QueryRow(text).Scan(&out); err != nil {
		return nil, notSQL(-1, "the SQL text can't be parsed: "+plainMessage(err.Error()), "shorten it or nest it less")
	}
	var head struct {
		Error    bool   `json:"error"`
		Type     string `json:"error_type"`
		Message  string `json:"error_message"`
		Position string `json:"position"`
		Subtype  string `json:"error_subtype"`
	}
	if err := json.Unmarshal([]byte(out), &head); err != nil {
		return nil, notSQL(-1, "the SQL text can't be parsed", "shorten it or nest it less")
	}
	if !head.Error {
		return []byte(out), nil
	}
	position := -1
	if n, err := strconv.Atoi(head.Position); err == nil {
		position = n
	}
	if head.Type == "not implemented" {
		return nil, notSQL(max(position, 0), "only a SELECT can be run here", "write one SELECT statement")
	}
	if strings.Contains(head.Message, "Max expression depth") || strings.Contains(head.Message, "memory exhausted") {
		return nil, &ParseError{
			Message: "the SQL text is nested too deeply", Position: position,
			status: 422, code: "sql_too_large", hint: "nest it less",
		}
	}
	return nil, notSQL(position, head.Message, "correct the SQL near this position")
}

// SQLFromAST writes a tree of ParseSQL, changed or not, as SQL.
func (p *Parser) SQLFromAST(ast []byte) (string, error) {
	var out string
	if err := p.write.QueryRow(string(ast)).Scan(&out); err != nil {
		return "", fmt.Errorf("write SQL from its tree: %s", plainMessage(err.Error()))
	}
	return out, nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

// checkpointAt is how large DuckDB's log may grow. Each checkpoint writes the last row group of a
// table again, whatever was added: at DuckDB's own 16 MB that took half of a loader's time. What is
// in the log is in memory too, so it is a part of that; and a start reads it again.
func checkpointAt(memory int64) int64 { return min(max(memory/16, 16<<20), 64<<20) }

// settings are the statements that shut DuckDB in, in the order in which they must run: the last
// ones take away the right to run the others.
func settings(memory int64, threads int) []string {
	return []string{
		fmt.Sprintf("SET threads = %d", threads),
		fmt.Sprintf("SET memory_limit = '%dKiB'", max(memory>>10, 1)),
		fmt.Sprintf("SET checkpoint_threshold = '%dKiB'", checkpointAt(memory)>>10),
		"SET temp_directory = ''",
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET allow_persistent_secrets = false",
		"SET enable_external_access = false",
		"SET lock_configuration = true",
	}
}
