package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"tidemark/storage/problem"
)

// keptViews are the texts of the golden files that make a plan.
func keptViews(t *testing.T) map[string]object {
	t.Helper()
	views := map[string]object{}
	for sql, ast := range parserKept.all() {
		if len(ast) > 20_000 {
			continue // a text of TestNamesDoNotGrowWithoutBound
		}
		if _, err := Compile(func(string) ([]byte, error) { return ast, nil }, shop(), sql, Options{}); err == nil {
			views[sql] = decodeTree(ast)
		}
	}
	if len(views) < 20 {
		t.Fatalf("only %d kept texts make a plan", len(views))
	}
	return views
}

// compileTree compiles a tree as if the parser had given it.
func compileTree(t *testing.T, tree object) error {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compile(func(string) ([]byte, error) { return text, nil }, shop(), "SELECT", Options{})
	return err
}

// eachObject visits all objects of a tree.
func eachObject(v any, visit func(object)) {
	switch v := v.(type) {
	case object:
		visit(v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			eachObject(v[name], visit)
		}
	case []any:
		for _, m := range v {
			eachObject(m, visit)
		}
	}
}

// Q1
func TestMembersNobodyKnowsAreRefused(t *testing.T) {
	t.Parallel()
	for sql, tree := range keptViews(t) {
		var objects []object
		eachObject(tree["statements"], func(o object) { objects = append(objects, o) })
		for _, o := range objects {
			o["surprise"] = true
			err := compileTree(t, tree)
			delete(o, "surprise")
			var p *problem.Problem
			if !errors.As(err, &p) || p.Status != 422 || !strings.Contains(p.Detail, "surprise") {
				t.Errorf("%s: a new member in %v was not refused: %v", sql, o["type"], err)
			}
		}
	}
}

// Q1: a flag that is set must change the plan or be refused, never be passed over.
func TestFlagsAreNotPassedOver(t *testing.T) {
	t.Parallel()
	harmless := map[string]bool{
		"is_operator": true, // how the function was written
	}
	for sql, tree := range keptViews(t) {
		before, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		plan := func() (string, error) {
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Compile(func(string) ([]byte, error) { return text, nil }, shop(), "SELECT", Options{})
			if err != nil {
				return "", err
			}
			s := Explain(p)
			for _, src := range p.Sources {
				s += fmt.Sprint(src)
			}
			return s, nil
		}
		want, err := plan()
		if err != nil {
			t.Fatal(err)
		}
		eachObject(tree["statements"], func(o object) {
			for name, v := range o {
				if on, ok := v.(bool); !ok || on || harmless[name] {
					continue
				}
				if name == "try_cast" && !contains(o["child"], func(o object) bool { return o["class"] == "COLUMN_REF" }) {
					continue // a constant, which was cast already
				}
				o[name] = true
				got, err := plan()
				o[name] = false
				if err == nil && got == want {
					t.Errorf("%s: %s of %v is passed over", sql, name, o["type"])
				}
			}
		})
		if after, _ := json.Marshal(tree); string(after) != string(before) {
			t.Fatal("the test changed its tree")
		}
	}
}

// Whatever the parser may answer: a plan or a problem, never a panic.
func TestBrokenTreesGiveProblems(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	views := keptViews(t)
	for _, sql := range slices.Sorted(maps.Keys(views)) {
		text, err := json.Marshal(views[sql])
		if err != nil {
			t.Fatal(err)
		}
		for range 80 {
			broken := decodeTree(text)
			var objects []object
			eachObject(broken["statements"], func(o object) { objects = append(objects, o) })
			o := objects[random.IntN(len(objects))]
			names := slices.Sorted(maps.Keys(o))
			name := names[random.IntN(len(names))]
			switch random.IntN(5) {
			case 0:
				delete(o, name)
			case 1:
				o[name] = nil
			case 2:
				o[name] = json.Number("-7")
			case 3:
				o[name] = []any{object{}}
			case 4:
				o[name] = copied(objects[random.IntN(len(objects))])
			}
			err := func() (err error) {
				defer func() {
					if r := recover(); r != nil {
						err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
					}
				}()
				return compileTree(t, broken)
			}()
			var p *problem.Problem
			if err != nil && !errors.As(err, &p) {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	never := func(string) ([]byte, error) {
		t.Error("a text past the limit reached the parser")
		return nil, nil
	}
	_, err := Compile(never, shop(), strings.Repeat(" ", maxTextBytes+1), Options{})
	var p *problem.Problem
	if !errors.As(err, &p) || p.Status != 413 {
		t.Errorf("a text of %d bytes: %v", maxTextBytes+1, err)
	}

	leaf := `{"class":"COLUMN_REF","type":"COLUMN_REF","alias":"","query_location":9,"column_names":["paid"]}`
	deep := leaf
	for range maxDepth {
		deep = `{"class":"OPERATOR","type":"OPERATOR_NOT","alias":"","query_location":9,"children":[` + deep + `]}`
	}
	wide := `{"class":"CONJUNCTION","type":"CONJUNCTION_AND","alias":"","query_location":9,"children":[` +
		strings.TrimSuffix(strings.Repeat(leaf+",", maxNodes), ",") + `]}`
	for name, where := range map[string]string{"deep": deep, "wide": wide} {
		parser := func(string) ([]byte, error) {
			return []byte(`{"error":false,"statements":[{"node":{"type":"SELECT_NODE","where_clause":` + where + `}}]}`), nil
		}
		_, err := Compile(parser, shop(), "SELECT", Options{})
		if !errors.As(err, &p) || p.Status != 422 || p.Code != "sql_too_complex" || p.Position != 9 {
			t.Errorf("a %s text: %v", name, err)
		}
		if _, err = Batch(parser, nil, shop(), "SELECT"); !errors.As(err, &p) || p.Code != "sql_too_complex" {
			t.Errorf("a %s text for history: %v", name, err)
		}
	}
}

// errAt is a parser's error as a Go error.
type errAt struct{ at int }

func (e errAt) Error() string { return "syntax error" }
func (e errAt) Where() int    { return e.at }

func TestParserErrorsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := Compile(func(string) ([]byte, error) { return nil, errAt{3} }, shop(), "SEL ECT", Options{})
	var p *problem.Problem
	if !errors.As(err, &p) || p.Status != 422 || p.Position != 3 {
		t.Errorf("got %v", err)
	}
	_, err = CompileWhere(func(string) ([]byte, error) { return nil, errAt{len("SELECT * FROM view WHERE ") + 2} }, nil, "a =")
	if !errors.As(err, &p) || p.Position != 2 {
		t.Errorf("where: got %v", err)
	}
}

// R1: only the columns that the text names are pinned.
func TestPlanPinsTheColumnsItReads(t *testing.T) {
	t.Parallel()
	sql := "SELECT window_start, country, sum(amount) AS revenue FROM tumble(checkouts, ts, INTERVAL '5 minutes') GROUP BY ALL"
	p, err := Compile(parserKept.parse, shop(), sql, Options{EmitFinal: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Sources[0].Pinned); got != "[1 2 3]" {
		t.Errorf("pinned %s, want ts, amount and country: [1 2 3]", got)
	}
	if got := fmt.Sprint(p.Dimensions); got != "[true true false]" {
		t.Errorf("dimensions %s", got)
	}
}

// A short text must not grow without bound where names stand for what they name.
func TestNamesDoNotGrowWithoutBound(t *testing.T) {
	t.Parallel()
	ctes := "WITH c0 AS (SELECT id FROM checkouts)"
	aliases := "SELECT id AS a0"
	slides := "checkouts"
	for i := range 30 {
		ctes += fmt.Sprintf(", c%d AS (SELECT * FROM c%d UNION ALL SELECT * FROM c%d)", i+1, i, i)
		aliases += fmt.Sprintf(", a%d + a%d AS a%d", i, i, i+1)
		slides = fmt.Sprintf("(SELECT * FROM slide(%s, ts, INTERVAL '1 minute'))", slides)
	}
	compile := func(sql string) error {
		_, err := Compile(parserKept.parse, shop(), sql, Options{})
		return err
	}
	batch := func(sql string) error {
		_, err := Batch(parserKept.parse, parserKept.write, shop(), sql)
		return err
	}
	for name, do := range map[string]func() error{
		"CTEs":    func() error { return compile(ctes + " SELECT * FROM c30") },
		"aliases": func() error { return compile(aliases + " FROM checkouts") },
		"slides":  func() error { return batch("SELECT * FROM " + slides) },
	} {
		err := do()
		var p *problem.Problem
		if !errors.As(err, &p) || p.Code != "sql_too_complex" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
