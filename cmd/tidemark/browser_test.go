package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium is the browser of these tests: `make test` sets CHROMIUM; without it the usual names are
// tried. There is no skipping: a browser that is missing fails the test with what to do.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Fatal("no Chromium found: run the tests by `make test`, or set CHROMIUM=/path/to/it")
	return ""
}

// browse opens a headless browser; errors in the page's script fail the test.
func browse(t testing.TB) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true),
		chromedp.WindowSize(1280, 1000), chromedp.UserDataDir(t.TempDir()))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	var over atomic.Bool // what breaks off when the browser goes is no failure, nor may it be told then
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(func(ev any) {
		if e, ok := ev.(*runtime.EventExceptionThrown); ok && !over.Load() {
			said := e.ExceptionDetails.Text
			if x := e.ExceptionDetails.Exception; x != nil {
				said += " " + x.Description
			}
			t.Errorf("the page's script failed: %s", said)
		}
	}))
	t.Cleanup(func() {
		over.Store(true)
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", chromium(t), err)
	}
	return ctx
}

// do runs browser actions.
func do(t testing.TB, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// see waits until the text of an element holds want.
func see(t *testing.T, ctx context.Context, selector, want string) {
	t.Helper()
	end := time.Now().Add(patience)
	script := fmt.Sprintf(`document.querySelector(%q)?.textContent ?? "(no such element)"`, selector)
	for {
		got := eval[string](t, ctx, script)
		if strings.Contains(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s shows %q, not %q", selector, got, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// become waits until a script's value is true. A script that fails is not true yet: what it looks for
// may not be there before the next page is.
func become(t testing.TB, ctx context.Context, script string) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+script+")"))
		if err == nil && is {
			return
		}
		if ctx.Err() != nil || time.Now().After(end) {
			t.Fatalf("this does not become true: %s (%v)\nthe page: %.2000s", script, err, eval[string](t, ctx, `document.body.innerText`))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// eval is the value of a script. One that was asked of a page that just went is asked of the next.
func eval[T any](t testing.TB, ctx context.Context, script string) T {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
		if err == nil {
			return out
		}
		if !pageWent(err) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// pageWent says whether an error is that a page was left while it was asked.
func pageWent(err error) bool {
	for _, text := range []string{"context was destroyed", "Cannot find context", "navigated or closed", "Cannot find default execution context"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// till is a server with sales, a view of their minutes and a dashboard.
func till(t *testing.T) *server {
	t.Helper()
	s := startServer(t)
	s.must("PUT", "/v1/streams/sales", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","shop":"VARCHAR","amount":"DOUBLE"}}`, nil)
	s.must("PUT", "/v1/views/minutes", `{"sql":"SELECT window_start, count(*) AS n, sum(amount) AS amount FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/views/total", `{"sql":"SELECT count(*) AS n, sum(amount) AS amount FROM sales","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/dashboards/till", `{"title":"Till","range":"now-1h","tz":"UTC","panels":[
		{"id":"total","title":"Total","type":"stat","view":"total","y":["amount"],"grid":[0,0,4,2]},
		{"id":"chart","title":"Chart","type":"timeseries","view":"minutes","x":"window_start","y":["amount"],"grid":[0,2,8,4]},
		{"id":"minutes","title":"Minutes","type":"table","view":"minutes","x":"window_start","y":["n","amount"],"order":"window_start DESC","limit":10,"grid":[4,0,8,2]}]}`, nil)
	return s
}

// sell posts a sale that happened some time before the first one was posted: those of one such time lie
// in one minute, however long a test takes.
func (s *server) sell(ago time.Duration, amount float64) {
	s.t.Helper()
	if s.opened.IsZero() {
		s.opened = time.Now().UTC()
	}
	at := s.opened.Add(-ago).Format("2006-01-02T15:04:05.000Z")
	s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":"north","amount":%v}`, at, amount), nil)
}

const (
	totalValue = "#panel-0 .stat-value"
	chartBody  = "#panel-1 .panel-body"
	tableBody  = "#panel-2 tbody"
)

// inked counts the pixels of the chart that carry something.
const inked = `(() => { const c = document.querySelector("#panel-1 canvas"); if (!c) return 0;
	const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0;
	for (let i = 3; i < d.length; i += 4) if (d[i] > 40) n++; return n; })()`

func TestPostedEventsMoveNumberAndChartWithoutReload(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(3*time.Minute, 10)
	s.sell(2*time.Minute, 20)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")), chromedp.Evaluate[chromedp.Void](`window.notReloaded = true`))
	see(t, ctx, totalValue, "30")
	see(t, ctx, chartBody+" .legend", "amount")

	before := eval[int](t, ctx, inked)
	if before == 0 {
		t.Error("the chart is blank")
	}
	chart := eval[string](t, ctx, `document.querySelector("#panel-1 canvas").toDataURL()`)
	s.sell(time.Minute, 100)
	see(t, ctx, totalValue, "130")
	end := time.Now().Add(patience)
	for eval[string](t, ctx, `document.querySelector("#panel-1 canvas").toDataURL()`) == chart {
		if time.Now().After(end) {
			t.Fatal("the chart has not changed")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !eval[bool](t, ctx, `window.notReloaded === true`) {
		t.Error("the page was loaded again")
	}
}

func TestReloadShowsTheSameNumbers(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	for i := range 5 {
		s.sell(time.Duration(i)*40*time.Second, float64(10+i))
	}
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, totalValue, "60")
	see(t, ctx, tableBody, "open")
	rows := `[...document.querySelectorAll("` + tableBody + ` tr")].map(tr => tr.children[0].textContent + "|" + tr.children[1].textContent + "|" + tr.children[2].textContent).join()`
	before := eval[string](t, ctx, rows)
	do(t, ctx, chromedp.Reload())
	see(t, ctx, totalValue, "60")
	see(t, ctx, tableBody, "open")
	if after := eval[string](t, ctx, rows); after != before {
		t.Errorf("after the reload: %s\nbefore: %s", after, before)
	}
}

func TestLatePaymentStrikesTheOldValueThrough(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(5*time.Minute, 40)
	s.sell(time.Minute, 1)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, tableBody, "final")
	see(t, ctx, "#panel-2 .panel-foot", "complete to") // the script has taken over from the server's HTML
	s.sell(5*time.Minute, 2)
	see(t, ctx, tableBody+" td:nth-child(3) del", "40")
	see(t, ctx, tableBody, "42")
	see(t, ctx, tableBody, "corrected")
	see(t, ctx, "#panel-2 .panel-foot", "1 corrected")
}

func TestVerifyShowsThatLiveAndDuckDBAgree(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(2*time.Minute, 7)
	s.sell(time.Minute, 8)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, totalValue, "15")
	do(t, ctx, chromedp.Click(chromedp.CSS("#panel-2 .passport-open")), chromedp.WaitVisible(chromedp.CSS("#passport")),
		chromedp.Click(chromedp.CSS("#passport .primary")))
	see(t, ctx, "#passport .verify-result", "Equal")
}

func TestTheFirstEventWakesTheEmptyServersPage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/")))
	see(t, ctx, "#listening", "Listening")
	s.must("POST", "/v1/streams/visits/events", `{"user":"ada","ts":"2026-01-01T12:00:00Z"}`, nil)
	see(t, ctx, "#listening", "first event of visits")
}

func TestReconnectAfterARestartLosesNothing(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(time.Minute, 1)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, totalValue, "1")
	s.restartAfterKill()
	s.sell(time.Minute, 2)
	see(t, ctx, totalValue, "3")
	see(t, ctx, "#connection", "live")
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/notes", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","who":"VARCHAR"}}`, nil)
	s.must("PUT", "/v1/views/by_who", `{"sql":"SELECT who, count(*) AS n FROM notes GROUP BY who","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/views/by_minute", `{"sql":"SELECT window_start, who, count(*) AS n FROM tumble(notes, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/dashboards/notes", `{"title":"<img src=x onerror=alert(1)>","range":"now-1h","panels":[
		{"id":"t","title":"</h2><script>alert(2)</script>","type":"table","view":"by_who","y":["n"],"grid":[0,0,6,4]},
		{"id":"l","title":"top","type":"toplist","view":"by_who","y":["n"],"series":"who","grid":[6,0,6,4]},
		{"id":"f","title":"feed","type":"feed","view":"notes","grid":[0,4,6,4]},
		{"id":"b","title":"bar","type":"bar","view":"by_who","x":"who","y":["n"],"series":"who","grid":[6,4,6,4]},
		{"id":"h","title":"heat","type":"heatmap","view":"by_minute","x":"window_start","y":["n"],"series":"who","grid":[0,8,6,4]},
		{"id":"c","title":"chart","type":"timeseries","view":"by_minute","x":"window_start","y":["n"],"series":"who","grid":[6,8,6,4]},
		{"id":"m","title":"words","type":"text","text":"<script>alert(3)</script> [x](javascript:alert(4)) <img src=x onerror=alert(5)>","grid":[0,12,6,4]}]}`, nil)
	hostile := []string{
		`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `"><svg onload=alert(1)>`, `javascript:alert(1)`, `{{constructor.constructor('alert(1)')()}}`, `</style><script>alert(1)</script>`,
		`'-alert(1)-'`, `<iframe src=javascript:alert(1)>`, `<details open ontoggle=alert(1)>`, `]]><script>alert(1)</script>`, `<a href="javascript:alert(1)">x</a>`, `${alert(1)}`,
	}
	for _, h := range hostile {
		s.must("POST", "/v1/streams/notes/events", fmt.Sprintf(`{"ts":%q,"who":%q}`, time.Now().UTC().Format(time.RFC3339), h), nil)
	}
	s.must("POST", "/v1/streams/notes/events", `{"ts":"<script>alert(1)</script>","who":"dead"}`, nil)
	ctx := browse(t)
	dialogs := `window.dialogs = 0; window.alert = () => window.dialogs++;`
	for _, page := range []string{"/d/notes", "/d/notes?f.who=%22%3Cscript%3Ealert(1)%3C%2Fscript%3E%22", "/streams/notes", "/views/by_who", "/dead-letters", "/new?name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/"} {
		do(t, ctx, chromedp.Navigate(s.url(page)), chromedp.Evaluate[chromedp.Void](dialogs))
		if strings.HasPrefix(page, "/d/") {
			see(t, ctx, "#panel-0 tbody", hostile[0])
			if strings.Contains(page, "f.who") {
				see(t, ctx, "#filters", hostile[0])
			} else {
				see(t, ctx, "#panel-1 .bars", hostile[1])
			}
			see(t, ctx, "#panel-3 .categories", hostile[0])
			see(t, ctx, "#panel-4 .heat", hostile[0])
			see(t, ctx, "#panel-5 .legend", hostile[0])
		}
		if n := eval[int](t, ctx, `window.dialogs + document.querySelectorAll("main script, main img, main svg[onload]").length`); n != 0 {
			t.Errorf("%s: hostile text became markup", page)
		}
	}
}
