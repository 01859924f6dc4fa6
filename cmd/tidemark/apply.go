package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

type applyCmd struct {
	serverFlags
	File   string `arg:"" help:"YAML file, or - for standard input."`
	DryRun bool   `help:"Show what would change and stop."`
}

func (*applyCmd) Help() string {
	return `The file holds maps from names to the bodies of the API:

  streams:
    checkouts: {time_field: ts, columns: {ts: TIMESTAMP, amount: DOUBLE}}
  views:
    revenue:
      sql: SELECT window_start, sum(amount) AS revenue FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL

What would change is shown first. What the file does not name stays as it is.`
}

// declarations are the sections of a file in the order in which they are applied.
var declarations = []string{"streams", "views", "alerts", "dashboards"}

// declaration is one thing that a file declares.
type declaration struct {
	section, name string
	body          json.RawMessage
	now           map[string]any // nil: not there yet
}

func (c *applyCmd) Run(ctx context.Context) error {
	text, err := readAll(c.File)
	if err != nil {
		return err
	}
	list, err := readDeclarations(text)
	if err != nil {
		return err
	}
	cl := c.client()
	changes := 0
	for i := range list {
		d := &list[i]
		if err := d.sign(c.File); err != nil {
			return err
		}
		err := cl.call(ctx, "GET", d.path(), nil, nil, &d.now)
		var p *problem.Problem
		if errors.As(err, &p) && p.Status == 404 {
			d.now, err = nil, nil
		}
		if err != nil {
			return err
		}
		if d.printDiff(os.Stdout) {
			changes++
		}
	}
	if c.DryRun || changes == 0 {
		fmt.Printf("%d to change, %d declared\n", changes, len(list))
		return nil
	}
	for _, d := range list {
		if err := cl.call(ctx, "PUT", d.path(), d.body, nil, nil); err != nil {
			var p *problem.Problem
			if errors.As(err, &p) {
				err = explain(p)
			}
			return fmt.Errorf("%s %s: %w", strings.TrimSuffix(d.section, "s"), d.name, err)
		}
	}
	fmt.Printf("applied: %d changed, %d declared\n", changes, len(list))
	return nil
}

// sign writes into a dashboard which file keeps it, so that its page does not offer to change what the
// next apply would change back. A file that says "managed" itself has its way.
func (d *declaration) sign(file string) error {
	var body map[string]json.RawMessage
	if d.section != "dashboards" || file == "-" || json.Unmarshal(d.body, &body) != nil || body["managed"] != nil {
		return nil
	}
	var err error
	if body["managed"], err = json.Marshal(filepath.Base(file)); err == nil {
		d.body, err = json.Marshal(body)
	}
	return err
}

func readAll(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

// readDeclarations reads a file in the order of its sections, and within one in the file's order:
// a view may read the one before it.
func readDeclarations(text []byte) ([]declaration, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the file must be a map with the sections streams, views, alerts and dashboards")
	}
	sections := map[string]*yaml.Node{}
	top := doc.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if !slices.Contains(declarations, top[i].Value) {
			return nil, fmt.Errorf("line %d: unknown section %q; the sections are %s", top[i].Line, top[i].Value, strings.Join(declarations, ", "))
		}
		sections[top[i].Value] = top[i+1]
	}
	var list []declaration
	for _, section := range declarations {
		node := sections[section]
		if node == nil {
			continue
		}
		if node.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: %s must be a map from names to bodies", node.Line, section)
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			body, err := jsonOf(node.Content[i+1])
			if err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", node.Content[i+1].Line, node.Content[i].Value, err)
			}
			list = append(list, declaration{section: section, name: node.Content[i].Value, body: body})
		}
	}
	return list, nil
}

// jsonOf is a YAML node as JSON with the members in the file's order (columns keep it).
func jsonOf(n *yaml.Node) (json.RawMessage, error) {
	switch n.Kind {
	case yaml.MappingNode:
		out := []byte{'{'}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				out = append(out, ',')
			}
			v, err := jsonOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			out = append(append(appendJSONString(out, n.Content[i].Value), ':'), v...)
		}
		return append(out, '}'), nil
	case yaml.SequenceNode:
		out := []byte{'['}
		for i, e := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			v, err := jsonOf(e)
			if err != nil {
				return nil, err
			}
			out = append(out, v...)
		}
		return append(out, ']'), nil
	case yaml.AliasNode:
		return jsonOf(n.Alias)
	}
	if n.Tag == "!!timestamp" || n.Tag == "!!str" {
		return appendJSONString(nil, n.Value), nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (d declaration) path() string { return "/v1/" + d.section + "/" + d.name }

// printDiff shows what applying d would change and reports whether anything would.
func (d declaration) printDiff(w io.Writer) bool {
	kind := strings.TrimSuffix(d.section, "s")
	if d.now == nil {
		fmt.Fprintf(w, "+ %s %s\n", kind, d.name)
		return true
	}
	var want map[string]any
	if json.Unmarshal(d.body, &want) != nil {
		return false
	}
	have := d.now
	if config, ok := d.now["config"].(map[string]any); ok { // of a stream; its columns stand beside
		have = maps.Clone(config)
		have["columns"] = declaredColumns(d.now, want)
	}
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	changed := false
	for _, name := range names {
		if sameValue(have[name], want[name]) {
			continue
		}
		a, _ := json.Marshal(have[name])
		b, _ := json.Marshal(want[name])
		if !changed {
			fmt.Fprintf(w, "~ %s %s\n", kind, d.name)
		}
		changed = true
		fmt.Fprintf(w, "    %s: %s → %s\n", name, a, b)
	}
	return changed
}

// declaredColumns are the columns of a stream as a body gives them: by name, and without the one
// that a time field makes when it is not listed. Inferred ones are not declared.
func declaredColumns(now, want map[string]any) any {
	list, _ := now["columns"].([]any)
	if inferred, _ := now["inferred"].(bool); inferred || len(list) == 0 {
		return nil
	}
	wanted, _ := want["columns"].(map[string]any)
	config, _ := now["config"].(map[string]any)
	columns := map[string]any{}
	for _, e := range list {
		column, _ := e.(map[string]any)
		name, _ := column["name"].(string)
		if name == config["time_field"] && wanted[name] == nil {
			continue
		}
		columns[name] = column["type"]
	}
	return columns
}

// sameValue tells whether what is there is what is wanted: "168h" is "7d", "int" is "INTEGER", and
// an empty value is one that is left out.
func sameValue(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any)
		for name := range h {
			if _, ok := w[name]; !ok {
				return false
			}
		}
		for name := range w {
			if !sameValue(h[name], w[name]) {
				return false
			}
		}
		return true
	case []any:
		h, _ := have.([]any)
		if len(h) != len(w) {
			return false
		}
		for i := range w {
			if !sameValue(h[i], w[i]) {
				return false
			}
		}
		return true
	case string:
		if h, ok := have.(string); ok {
			return h == w || sameDuration(h, w) || sameSize(h, w) || sameType(h, w)
		}
		return w == "" && have == nil
	case float64:
		if h, ok := have.(string); ok {
			return sameSize(h, strconv.FormatFloat(w, 'f', -1, 64))
		}
		return have == want || w == 0 && have == nil
	case bool:
		return have == want || !w && have == nil
	}
	return have == want
}

// sameDuration tells that "168h" and "7d" are the same.
func sameDuration(a, b string) bool {
	p, err1 := stream.ParseDuration(a)
	q, err2 := stream.ParseDuration(b)
	return err1 == nil && err2 == nil && p == q
}

// sameSize tells that "1GB" and "1024MB" are the same.
func sameSize(a, b string) bool {
	p, err1 := stream.ParseSize(a)
	q, err2 := stream.ParseSize(b)
	return err1 == nil && err2 == nil && p == q
}

// sameType tells that "int" and "INTEGER" are the same.
func sameType(a, b string) bool {
	p, err1 := row.ParseType(a)
	q, err2 := row.ParseType(b)
	return err1 == nil && err2 == nil && p.Equal(q)
}
