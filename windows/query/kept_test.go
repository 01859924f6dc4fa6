package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// The tests need no DuckDB: what its parser answers is kept in testdata/asts.json (text → tree) and
// testdata/sqls.json (hash of a tree → text). Both are written anew by
//
//	go test ./windows/query -update -parser PROGRAM
//
// where PROGRAM p reads texts on its standard input, one a line, and answers each with the tree on
// one line, and PROGRAM d does the reverse.
var (
	update = flag.Bool("update", false, "write the golden files anew")
	parser = flag.String("parser", "", "program that parses what is not kept yet; see kept_test.go")
)

const (
	astsFile = "testdata/asts.json"
	sqlsFile = "testdata/sqls.json"
)

// keptParser is DuckDB's parser as the tests have it.
type keptParser struct {
	mu   sync.Mutex
	asts map[string]json.RawMessage
	sqls map[string]string
	used map[string]bool // to drop what no test asks for any more
}

var parserKept = func() *keptParser {
	k := &keptParser{asts: map[string]json.RawMessage{}, sqls: map[string]string{}, used: map[string]bool{}}
	load(astsFile, &k.asts)
	load(sqlsFile, &k.sqls)
	return k
}()

func load(file string, into any) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(err)
	}
}

// save keeps what the tests asked for.
func (k *keptParser) save() {
	for text := range k.asts {
		if !k.used[text] {
			delete(k.asts, text)
		}
	}
	for hash := range k.sqls {
		if !k.used[hash] {
			delete(k.sqls, hash)
		}
	}
	sqls := map[string]json.RawMessage{}
	for hash, sql := range k.sqls {
		sqls[hash] = quoted(sql)
	}
	for file, entries := range map[string]map[string]json.RawMessage{astsFile: k.asts, sqlsFile: sqls} {
		var b bytes.Buffer // one entry a line, so that a diff can be read
		for i, key := range slices.Sorted(maps.Keys(entries)) {
			b.WriteString(map[bool]string{true: "{\n", false: ",\n"}[i == 0])
			b.Write(quoted(key))
			b.WriteString(":")
			b.Write(entries[key])
		}
		b.WriteString("\n}\n")
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			panic(err)
		}
	}
}

func quoted(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func (k *keptParser) run(mode, line string) (string, error) {
	if *parser == "" {
		return "", errors.New("not kept; run with -update -parser, see kept_test.go: " + line)
	}
	cmd := exec.Command(*parser, mode)
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(line, "\n", " ") + "\n")
	out, err := cmd.Output()
	return strings.TrimSuffix(string(out), "\n"), err
}

// all are the trees that are kept now.
func (k *keptParser) all() map[string]json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.asts)
}

// parse is a ParseSQL.
func (k *keptParser) parse(sql string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used[sql] = true
	if ast, ok := k.asts[sql]; ok {
		return ast, nil
	}
	out, err := k.run("p", sql)
	if err != nil {
		return nil, err
	}
	k.asts[sql] = json.RawMessage(out)
	return []byte(out), nil
}

// write is a SQLFromAST.
func (k *keptParser) write(ast []byte) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := sha256.Sum256(ast)
	hash := hex.EncodeToString(sum[:12])
	k.used[hash] = true
	if sql, ok := k.sqls[hash]; ok {
		return sql, nil
	}
	out, err := k.run("d", string(ast))
	if err != nil {
		return "", problem.From(err)
	}
	k.sqls[hash] = out
	return out, nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *update && code == 0 {
		parserKept.save()
	}
	os.Exit(code)
}

// relations is a Catalog.
type relations map[string]Relation

func (r relations) Relation(name string) (Relation, bool) {
	rel, ok := r[strings.ToLower(name)]
	return rel, ok
}

// shop is the catalog of the tests.
func shop() relations {
	fields := func(list ...string) []row.Field {
		var out []row.Field
		for i := 0; i < len(list); i += 2 {
			t, err := row.ParseType(list[i+1])
			if err != nil {
				panic(err)
			}
			out = append(out, row.Field{Name: list[i], Type: t})
		}
		return out
	}
	r := relations{
		"checkouts": {Name: "checkouts", Kind: "stream", ID: 1, TimeField: "ts", Fields: fields(
			"id", "BIGINT", "ts", "TIMESTAMP", "amount", "DOUBLE", "country", "VARCHAR", "cur", "VARCHAR", "items", "INTEGER",
			"device", "STRUCT(os VARCHAR, v BIGINT)", "tags", "VARCHAR[]", "props", "JSON", "shipped_at", "TIMESTAMP", "paid", "BOOLEAN")},
		"clicks": {Name: "clicks", Kind: "stream", ID: 2, Fields: fields("url", "VARCHAR", "person", "VARCHAR", "n", "INTEGER")},
		"odd": {Name: "odd", Kind: "stream", ID: 3, TimeField: "at", Fields: fields(
			"at", "BIGINT", "window_start", "TIMESTAMP", "Price", "DECIMAL(10,2)", "group", "VARCHAR")},
		"revenue": {Name: "revenue", Kind: "view", Fields: fields("window_start", "TIMESTAMP", "country", "VARCHAR", "revenue", "DOUBLE")},
	}
	r["bid"] = Relation{Name: "bid", Kind: "stream", ID: 11, TimeField: "date_time", Fields: fields(
		"auction", "BIGINT", "bidder", "BIGINT", "price", "BIGINT", "channel", "VARCHAR", "url", "VARCHAR", "date_time", "TIMESTAMP", "extra", "VARCHAR")}
	view := func(name, kind, sql string, v View, list ...string) {
		v.SQL, v.Within, v.AllowedLateness = sql, maps.Clone(r), 3_600_000_000
		r[name] = Relation{Name: name, Kind: kind, Fields: fields(list...), View: &v}
	}
	view("per_minute", "view", "SELECT window_start AS minute, window_end AS until, country, count(*) AS n, sum(amount) AS total FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL", View{},
		"minute", "TIMESTAMP", "until", "TIMESTAMP", "country", "VARCHAR", "n", "BIGINT", "total", "DOUBLE")
	view("minutes_final", "view", "SELECT window_start AS minute, sum(amount) AS total FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL", View{EmitFinal: true},
		"minute", "TIMESTAMP", "total", "DOUBLE")
	view("visits", "view", "SELECT country, window_start AS began, window_end AS ended FROM session(checkouts, ts, INTERVAL '1 minute', country) GROUP BY ALL", View{},
		"country", "VARCHAR", "began", "TIMESTAMP", "ended", "TIMESTAMP")
	view("paid", "view", "SELECT ts AS at, amount, country FROM checkouts WHERE paid", View{},
		"at", "TIMESTAMP", "amount", "DOUBLE", "country", "VARCHAR")
	view("countries", "view", "SELECT country, count(*) AS n FROM checkouts GROUP BY ALL", View{}, "country", "VARCHAR", "n", "BIGINT")
	view("pages", "view", "SELECT url, _time AS t, n FROM clicks", View{}, "url", "VARCHAR", "t", "TIMESTAMP", "n", "INTEGER")
	view("large", "alert", "SELECT at, amount FROM paid WHERE amount > 100", View{}, "at", "TIMESTAMP", "amount", "DOUBLE")
	return r
}
