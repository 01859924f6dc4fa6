package ui

import (
	"bytes"
	"compress/gzip"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Bytes over the wire, gzipped, that a first visit may cost: the styles, the script of every page with
// what it imports, and the chart that a dashboard adds. What loads when somebody asks for it, such as
// the editor, comes on top and is bounded too.
const (
	mostScript    = 60 << 10
	mostStyle     = 20 << 10
	mostAllScript = 80 << 10
)

// imported is what a script loads before it runs.
var imported = regexp.MustCompile(`(?:from|import)\s*"\./([\w.-]+\.js)"`)

func TestFirstPageStaysSmall(t *testing.T) {
	t.Parallel()
	entries, err := files.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	bodies, sizes := map[string]string{}, map[string]int{}
	all, chart := 0, ""
	for _, e := range entries {
		body, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = z.Write(body)
		_ = z.Close()
		bodies[e.Name()], sizes[e.Name()] = string(body), b.Len()
		if path.Ext(e.Name()) == ".js" {
			all += b.Len()
			if strings.Contains(string(body), "u-cursor-pt") {
				chart = e.Name()
			}
		}
	}
	first, loaded := 0, map[string]bool{}
	var load func(name string)
	load = func(name string) {
		if loaded[name] {
			return
		}
		loaded[name] = true
		first += sizes[name]
		for _, m := range imported.FindAllStringSubmatch(bodies[name], -1) {
			load(m[1])
		}
	}
	load("app.js")
	load(chart)
	if chart == "" || len(loaded) < 3 || first > mostScript {
		t.Errorf("the scripts of the first page (%d files) take %d bytes gzipped, at most %d are allowed", len(loaded), first, mostScript)
	}
	if all > mostAllScript {
		t.Errorf("all scripts take %d bytes gzipped, at most %d are allowed", all, mostAllScript)
	}
	if got := sizes["app.css"]; got == 0 || got > mostStyle {
		t.Errorf("styles take %d bytes gzipped, at most %d are allowed", got, mostStyle)
	}
	t.Logf("first page: %d of script, %d of style; all scripts %d", first, sizes["app.css"], all)
}

func TestMarkdownHoldsNoMarkupOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{
		`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `[x](javascript:alert(1))`, `![x](javascript:alert(1))`,
		"[x](JaVaScRiPt:alert(1))", "<a href=\"javascript:alert(1)\">x</a>", `[x](data:text/html,<script>alert(1)</script>)`, `<svg onload=alert(1)>`,
		"<javascript:alert(1)>", "[x]: javascript:alert(1)\n[x]", `"><iframe src=javascript:alert(1)>`,
	} {
		html := strings.ToLower(Markdown(hostile))
		for _, bad := range []string{"<script", "<img src=x", "<svg", "<iframe", `href="javascript`, `src="javascript`, `href="data:`, " onerror", " onload"} {
			if strings.Contains(html, bad) && !strings.Contains(html, "&lt;") {
				t.Errorf("%s became %s", hostile, html)
			}
		}
	}
	if got := Markdown("**a** and `b`"); !strings.Contains(got, "<strong>a</strong>") || !strings.Contains(got, "<code>b</code>") {
		t.Errorf("Markdown is not rendered: %s", got)
	}
}
