package ui

import (
	"bytes"
	"compress/gzip"
	"path"
	"strings"
	"testing"
)

// Bytes over the wire, gzipped, that a first visit may cost. All scripts together are held to it,
// those that are loaded only when they are needed too.
const (
	mostScript = 60 << 10
	mostStyle  = 20 << 10
)

func TestFirstPageStaysSmall(t *testing.T) {
	t.Parallel()
	entries, err := files.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, e := range entries {
		body, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = z.Write(body)
		_ = z.Close()
		sizes[path.Ext(e.Name())] += b.Len()
	}
	if got := sizes[".js"]; got == 0 || got > mostScript {
		t.Errorf("scripts take %d bytes gzipped, at most %d are allowed", got, mostScript)
	}
	if got := sizes[".css"]; got == 0 || got > mostStyle {
		t.Errorf("styles take %d bytes gzipped, at most %d are allowed", got, mostStyle)
	}
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
