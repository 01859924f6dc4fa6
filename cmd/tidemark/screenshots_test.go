package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.Bool("screenshots", false, "write docs/screenshots")

// sights are the pages, and what each of them shows once its script has drawn it.
var sights = []struct{ name, path, ready string }{
	{"shop", "/d/shop", `document.querySelector("canvas") && document.querySelectorAll(".skeleton").length === 0 && document.querySelector(".feed li") && document.querySelector(".alerts li")`},
	{"visitors", "/d/visitors", `document.querySelectorAll("canvas").length >= 3 && document.querySelectorAll(".skeleton").length === 0 && document.querySelector(".heat td")`},
	{"overview", "/", `[...document.querySelectorAll("[data-rate]")].some((x) => /\d/.test(x.textContent))`},
	{"stream", "/streams/payments", `document.querySelectorAll("#tail tr").length > 10`},
	{"view", "/views/revenue", `/rows/.test(document.querySelector("#row-count").textContent) && document.querySelector("#view-rows [data-label]")`},
	{"new-view", "/new?stream=payments", `/can run/.test(document.querySelector("#build-check").textContent)`},
	{"dead-letters", "/dead-letters", `document.querySelector(".letters li")`},
	{"ops", "/ops", `[...document.querySelectorAll("[data-rate]")].some((x) => /\d/.test(x.textContent))`},
	{"settings", "/settings", `document.querySelector("#new-key")`},
}

// demoServer is the demo with its past filled in.
func demoServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "demo"), addr: freeAddress(t), log: &lockedBuffer{}, demo: true}
	s.start()
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	s.eventually("the demo has its past", func() error {
		if !strings.Contains(s.log.String(), "Ctrl-C") {
			return errors.New("it is still filling it in")
		}
		return nil
	})
	s.call("POST", "/v1/streams/payments/events", `{"id":"broken-till","ts":"yesterday","card":"c-1010","amount":12.5,"status":"ok"}`)
	return s
}

// TestScreenshots holds every page, in light, dark and on a phone, to render without an error in its
// script, to have nothing that sticks out, and to be usable by everybody as far as axe-core can tell.
// With -screenshots it writes what one sees.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	s := demoServer(t)
	looks := []look{{"light", false, 1280, 900}, {"dark", true, 1280, 900}, {"360", false, 360, 740}}
	axe := readAxe(t)
	ctx := browse(t)
	for _, l := range looks {
		for _, x := range sights {
			l.take(t, ctx, s.url(x.path), x.ready)
			// Nothing may swipe sideways.
			if wide := eval[int](t, ctx, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
				t.Errorf("%s, %s: %d pixels stick out to the right", x.name, l.name, wide)
			}
			if l.width < 500 {
				if cut := eval[string](t, ctx, `[...document.querySelectorAll("table.stack")].filter((x) => x.scrollWidth > x.parentElement.clientWidth + 1).map((x) => x.textContent.slice(0, 40)).join("; ")`); cut != "" {
					t.Errorf("%s, %s: tables are cut: %s", x.name, l.name, cut)
				}
			}
			if found := faults(t, ctx, axe); found != "" {
				t.Errorf("%s, %s: axe-core finds\n%s", x.name, l.name, found)
			}
			if !*screenshots {
				continue
			}
			shot := l.shoot(t, ctx)
			write(t, x.name+"-"+l.name, shot)
			if x.name == "shop" && l.name == "light" {
				write(t, "demo", shot)
			}
		}
	}
}

// look is how a page is looked at.
type look struct {
	name          string
	dark          bool
	width, height int64
}

// take opens a page and waits until it is drawn.
func (l look) take(t *testing.T, ctx context.Context, url, ready string) {
	t.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	do(t, ctx, l.size(l.height), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return err
	}), chromedp.Navigate(url))
	become(t, ctx, ready)
}

// shoot is the whole page as a PNG.
func (l look) shoot(t *testing.T, ctx context.Context) []byte {
	t.Helper()
	height := min(eval[int64](t, ctx, `document.documentElement.scrollHeight`), 2600)
	do(t, ctx, l.size(max(height, l.height)))
	out, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// size makes the browser's window that high.
func (l look) size(height int64) chromedp.Action[chromedp.Void] {
	if l.width < 500 {
		return chromedp.EmulateViewport(l.width, height, chromedp.EmulateMobile)
	}
	return chromedp.EmulateViewport(l.width, height)
}

// near says whether two colours are hard to tell apart.
func near(a, b color.RGBA) bool {
	d := func(x, y uint8) int { return (int(x) - int(y)) * (int(x) - int(y)) }
	return d(a.R, b.R)+d(a.G, b.G)+d(a.B, b.B) < 40
}

// write keeps a picture with the 256 colours that it uses most: a quarter of the size, and no eye
// sees it.
func write(t *testing.T, name string, shot []byte) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	uses := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			uses[at(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(uses), func(a, b color.RGBA) int { return uses[b] - uses[a] })
	var palette color.Palette
	for _, c := range colors {
		if len(palette) < 256 && !slices.ContainsFunc(palette, func(p color.Color) bool { return near(p.(color.RGBA), c) }) {
			palette = append(palette, c)
		}
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range colors {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(img.Bounds(), palette)
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			small.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
