package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	parquet "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestRetentionIsEditedOnThePageLikeByTheAPI(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	fill := func(age, size string) {
		do(t, ctx, chromedp.Navigate(s.url("/settings")), chromedp.WaitVisible(chromedp.CSS("#kept-sales [name=age]")),
			chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const f = document.querySelector("#kept-sales form").elements; f.age.value = %q; f.bytes.value = %q }; void 0`, age, size)),
			chromedp.Click(chromedp.CSS("#kept-sales button")))
	}
	kept := func() string {
		var got struct{ Config struct{ Retention any } }
		s.must("GET", "/v1/streams/sales", "", &got)
		return fmt.Sprint(got.Config.Retention)
	}
	fill("7d", "20GB")
	see(t, ctx, "#kept-sales .answer", "Changed")
	if got := kept(); got != "map[age:168h bytes:20GB]" && got != "map[age:7d bytes:20GB]" {
		t.Errorf("%s", got)
	}
	was := kept()
	fill("1s", "20GB")
	see(t, ctx, "#kept-sales .wrong", "at least 1m")
	if got := eval[string](t, ctx, `document.querySelector("#kept-sales [name=age]").value`); got != "1s" || kept() != was {
		t.Errorf("what was typed is lost (%s), or was taken (%s)", got, kept())
	}
	fill(`<script>alert(1)</script>`, "much")
	see(t, ctx, "#kept-sales .wrong", "<script>")
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
	fill("", "")
	see(t, ctx, "#kept-sales .answer", "Changed")
	if got := kept(); got != "<nil>" && got != "map[]" {
		t.Errorf("%s", got)
	}
}

// A form of another site, or one without the session's token, changes nothing.
func TestFormsNeedTheSessionsToken(t *testing.T) {
	t.Parallel()
	s := till(t)
	post := func(header http.Header, form url.Values) int {
		req, err := http.NewRequest("POST", s.url("/settings/retention/sales"), strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := post(http.Header{"Origin": {"https://evil.example"}}, url.Values{"age": {"1m"}}); got != 403 {
		t.Errorf("a form of another site: %d", got)
	}
	var made struct{ Key string }
	s.must("PUT", "/v1/keys/boss", `{"scopes":["admin"]}`, &made)
	s.key = made.Key
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).PostForm(s.url("/sign-in"), url.Values{"key": {made.Key}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cookie := strings.SplitN(resp.Header.Get("Set-Cookie"), ";", 2)[0]
	if got := post(http.Header{"Cookie": {cookie}}, url.Values{"age": {"1m"}}); got != 403 {
		t.Errorf("a form without the token: %d", got)
	}
	req, _ := http.NewRequest("GET", s.url("/settings"), nil)
	req.Header.Set("Cookie", cookie)
	page, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(string(text), `name="csrf" value="`)
	token, _, _ = strings.Cut(token, `"`)
	if got := post(http.Header{"Cookie": {cookie}}, url.Values{"age": {"5m"}, "csrf": {token}}); got != 303 {
		t.Errorf("the page's own form: %d", got)
	}
}

func TestSignedInPagesSurviveARestartAndSignOutEndsThem(t *testing.T) {
	t.Parallel()
	s := till(t)
	var made struct{ Key string }
	s.must("PUT", "/v1/keys/boss", `{"scopes":["admin"]}`, &made)
	s.key = made.Key
	s.sell(2*time.Minute, 10)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")), chromedp.WaitVisible(chromedp.CSS(".signin [name=key]")),
		chromedp.SendKeys(chromedp.CSS(".signin [name=key]"), made.Key+kb.Enter))
	see(t, ctx, totalValue, "10")
	s.stop(syscall.SIGTERM)
	s.start()
	s.sell(2*time.Minute, 5)
	see(t, ctx, totalValue, "15") // the socket came back by the same session
	see(t, ctx, "#connection", "live")
	// Signing out elsewhere with the same session ends this page's socket too.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.out = false; fetch("/sign-out", {method: "POST", redirect: "manual", headers: {"X-CSRF-Token": document.querySelector("meta[name=csrf]").content}}).then(() => window.out = true); void 0`))
	become(t, ctx, `window.out`) // whoever leaves the page before takes the request back
	see(t, ctx, "#connection", "ended")
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, ".signin h1", "Sign in")
}

func TestDeadLettersOfGroupsAreGivenAgainAndDropped(t *testing.T) {
	t.Parallel()
	s := till(t)
	hostile := `<img src=x onerror=alert(1)>`
	for i := range 3 {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":"2024-01-01T00:00:0%dZ","shop":%q,"amount":%d}`, i, hostile, i), nil)
	}
	poll := func() (events []struct {
		Offset int
		Event  rowMap
	},
	) {
		var answer struct {
			Events []struct {
				Offset int
				Event  rowMap
			}
		}
		s.must("POST", "/v1/streams/sales/groups/cards/poll", `{"member":"m","max":10}`, &answer)
		return answer.Events
	}
	for range 5 { // max_attempts
		for _, e := range poll() {
			s.must("POST", "/v1/streams/sales/groups/cards/nack", fmt.Sprintf(`{"member":"m","partition":0,"offset":%d,"reason":"no card %s"}`, e.Offset, hostile), nil)
		}
	}
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/streams/sales")))
	see(t, ctx, ".letters", "group cards")
	see(t, ctx, ".letters", "no card <img")
	if eval[bool](t, ctx, `!!document.querySelector(".letters img")`) {
		t.Error("an event's text became an element")
	}
	do(t, ctx, chromedp.Navigate(s.url("/dead-letters")), chromedp.WaitVisible(chromedp.CSS("[data-letter='cards.0.1'] summary")),
		chromedp.Click(chromedp.CSS("[data-letter='cards.0.1'] summary")),
		chromedp.SetValue(chromedp.CSS("[data-letter='cards.0.1'] textarea"), `{"ts":"2024-01-01T00:00:01Z","shop":"mended","amount":1}`),
		chromedp.Click(chromedp.CSS("[data-letter='cards.0.1'] .primary")))
	see(t, ctx, ".letters .gone", "group cards again")
	do(t, ctx, chromedp.Click(chromedp.CSS("[data-letter='cards.0.2'] summary")), chromedp.Click(chromedp.CSS("[data-letter='cards.0.2'] .drop")))
	see(t, ctx, "[data-letter='cards.0.2'] .drop", "Really")
	do(t, ctx, chromedp.Click(chromedp.CSS("[data-letter='cards.0.2'] .drop")))
	become(t, ctx, `document.querySelectorAll(".letters .gone").length === 2`)
	if got := poll(); len(got) != 1 || got[0].Event["shop"] != "mended" {
		t.Errorf("the group gets %v", got)
	}
	var letters struct{ Items []struct{ ID string } }
	s.must("GET", "/v1/streams/sales/dead_letters", "", &letters)
	if len(letters.Items) != 1 || letters.Items[0].ID != "cards.0.0" {
		t.Errorf("%+v", letters)
	}
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
}

func TestAKeyIsRotatedOnThePage(t *testing.T) {
	t.Parallel()
	s := till(t)
	var made struct{ Key string }
	s.must("PUT", "/v1/keys/till", `{"scopes":["ingest"]}`, &made)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/settings")), chromedp.WaitVisible(chromedp.CSS(".rotate-key")), chromedp.Click(chromedp.CSS(".rotate-key")))
	see(t, ctx, ".rotate-key", "Really")
	do(t, ctx, chromedp.Click(chromedp.CSS(".rotate-key")))
	see(t, ctx, "#new-key .key", "tdm_")
	if got := eval[string](t, ctx, `document.querySelector("#new-key .key").textContent`); got == made.Key {
		t.Error("the key is what it was")
	}
}

// R5
func TestAnIDIsFoundHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for name, config := range map[string]string{
		"inferred": `{"id_field":"id"}`,
		"numbers":  `{"id_field":"id","columns":{"id":"BIGINT"}}`,
		"texts":    `{"id_field":"id","columns":{"id":"VARCHAR"}}`,
	} {
		s.must("PUT", "/v1/streams/"+name, config, nil)
		fate := func(id string) string {
			var f fateAnswer
			s.must("GET", "/v1/streams/"+name+"/fate?id="+url.QueryEscape(id), "", &f)
			if f.Offset == nil {
				return f.Fate
			}
			return fmt.Sprint(f.Fate, *f.Offset)
		}
		post := func(event string) {
			s.must("POST", "/v1/streams/"+name+"/events", event, nil)
		}
		switch name {
		case "texts":
			post(`{"id":"1"}`)
			post(`{"id":"a b"}`)
			if got := fate("1") + fate(`"1"`) + fate("a b") + fate("2"); got != "appended0appended0appended1unknown" {
				t.Errorf("%s: %s", name, got)
			}
		default:
			post(`{"id":1}`)
			post(`{"id":2.0}`)
			if got := fate("1") + fate("1.0") + fate(`"1"`) + fate("2") + fate("2e0"); got != "appended0appended0unknownappended1appended1" {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

// What is no JSON of the right shape is 400; a value that can't be is 422, of streams and of views.
func TestABadDurationIsTheSameMistakeEverywhere(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/orders", `{}`, nil)
	view := `"sql":"SELECT count(*) AS n FROM orders"`
	for request, want := range map[string]int{
		`streams/orders {"idle_timeout":"soon"}`:       422,
		`streams/orders {"idle_timeout":5}`:            422,
		`streams/orders {"retention":{"age":"soon"}}`:  422,
		`streams/orders {"idle":"5s"}`:                 400,
		`streams/orders {`:                             400,
		`views/all {` + view + `,"epoch":"soon"}`:      422,
		`views/all {` + view + `,"throttle":5}`:        422,
		`views/all {` + view + `,"retention":"soon"}`:  422,
		`views/all {` + view + `,"epochs":"5s"}`:       400,
		`views/all {` + view + `,"emit":5}`:            400,
		`views/all {`:                                  400,
		`alerts/one {` + view + `,"cooldown":"soon"}`:  422,
		`alerts/one {` + view + `,"cooldowns":"soon"}`: 400,
		`dashboards/d {"title":"x","range":"soon"}`:    422,
		`dashboards/d {"titles":"x"}`:                  400,
	} {
		path, body, _ := strings.Cut(request, " ")
		if status, answer := s.call("PUT", "/v1/"+path, body); status != want {
			t.Errorf("%s: %d %s, not %d", request, status, answer, want)
		}
	}
}

func TestQueriesAnswerAsArrowAndParquet(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.sell(time.Minute, 10)
	s.historyHas("sales", 1)
	ask := func(accept string) (*http.Response, []byte) {
		req, err := http.NewRequest("POST", s.url("/v1/query"), strings.NewReader(`{"sql":"SELECT shop, amount FROM sales"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, body
	}
	resp, body := ask("application/vnd.apache.parquet")
	file, err := parquet.NewParquetReader(bytes.NewReader(body))
	if err != nil || file.NumRows() != 1 || resp.Header.Get("Content-Type") != "application/vnd.apache.parquet" {
		t.Errorf("%d %s %v", resp.StatusCode, resp.Header, err)
	}
	resp, body = ask("text/html;q=0.5, application/vnd.apache.arrow.stream")
	stream, err := ipc.NewReader(bytes.NewReader(body))
	if err != nil || !stream.Next() || stream.RecordBatch().NumRows() != 1 || resp.Header.Get("Content-Type") != "application/vnd.apache.arrow.stream" {
		t.Errorf("%d %s %v", resp.StatusCode, resp.Header, err)
	}
	if resp, body := ask("image/png"); resp.StatusCode != 406 || !bytes.Contains(body, []byte("parquet")) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestAViewsPageTellsOfLateEventsOverTimeAndByHowMuch(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/sales", `{"time_field":"ts","max_out_of_orderness":"0s","columns":{"ts":"TIMESTAMP","shop":"VARCHAR"}}`, nil)
	s.must("PUT", "/v1/views/minutes", `{"sql":"SELECT window_start, count(*) AS n FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","late":"drop"}`, nil)
	at := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	for i := range 4 {
		head := at.Add(time.Duration(i) * time.Hour)
		for _, too := range []time.Duration{0, 65 * time.Second, 5 * time.Minute} {
			s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":"<img src=x onerror=alert(1)>"}`, head.Add(-too).Format(time.RFC3339)), nil)
		}
	}
	s.settle("minutes")
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/views/minutes")))
	see(t, ctx, "#late-by", "up to 10 minutes too late")
	if got := eval[string](t, ctx, `document.querySelector("#late-by dd").textContent`); got != "8" {
		t.Errorf("%s refused events", got)
	}
	if got := eval[int](t, ctx, `document.querySelectorAll(".late-chart:first-of-type rect.refused").length`); got != 4 {
		t.Errorf("%d times at which events were refused, not 4", got)
	}
	if got := eval[string](t, ctx, `document.querySelector(".late-chart title").textContent`); !strings.Contains(got, "2 events refused, late by up to 5m") {
		t.Errorf("%s", got)
	}
	see(t, ctx, "#held", "The watermark waits for sales, partition 0")
	become(t, ctx, `document.querySelector("#plan .plan-tree").textContent.includes("aggregate")`)
	if eval[bool](t, ctx, `!!document.querySelector("main img")`) {
		t.Error("an event's text became an element")
	}
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
}

// Corrections stand beside what was refused, each with how long after the row was final it came.
func TestAViewsPageTellsOfCorrectionsOverTimeAndByHowMuch(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/sales", `{"time_field":"ts","max_out_of_orderness":"0s","columns":{"ts":"TIMESTAMP","shop":"VARCHAR"}}`, nil)
	s.must("PUT", "/v1/views/minutes", `{"sql":"SELECT window_start, shop, count(*) AS n FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","allowed_lateness":"30m"}`, nil)
	at := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	send := func(when time.Time, shop string) {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":%q}`, when.Format(time.RFC3339), shop), nil)
		s.settle("minutes")
	}
	send(at.Add(time.Minute), "north")
	for i := range 3 {
		head := at.Add(time.Duration(i+1) * time.Hour)
		send(head, "north")
		send(head.Add(-20*time.Minute), "north") // its window ended 19 minutes before
		send(head.Add(-90*time.Second), "south") // and this one 60 seconds: a row that is new
		send(head.Add(-2*time.Hour), "north")    // refused
	}
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/views/minutes")))
	see(t, ctx, "#corrected-by", "up to 1 minute later")
	text := eval[string](t, ctx, `[...document.querySelectorAll("#corrected-by div, #late-by div")].map((x) => x.textContent).join(" ")`)
	if text != "up to 1 minute later3 up to 1 hour later3 up to 1 day too late3" {
		t.Errorf("%s", text)
	}
	if got := eval[[]int](t, ctx, `["corrected", "refused"].map((c) => document.querySelectorAll(".late-chart:first-of-type rect." + c).length)`); fmt.Sprint(got) != "[3 3]" {
		t.Errorf("%v times of corrections and refusals, not 3 and 3", got)
	}
	if got := eval[string](t, ctx, `document.querySelector("#late-most title").textContent`); !strings.Contains(got, "2 corrections, up to 19m after they were final; 1 event refused, late by up to 2h") {
		t.Errorf("%s", got)
	}
	// One that comes now stands there without a reload.
	send(at.Add(3*time.Hour-25*time.Minute), "north")
	see(t, ctx, "#corrected-by", "up to 1 hour later4")
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
}

// What the page holds itself is what its script then draws: nothing jumps when it takes over.
func TestAViewsPageIsTheSameBeforeItsScriptAndAfter(t *testing.T) {
	t.Parallel()
	s := till(t)
	for i := range 4 {
		s.sell(time.Duration(i)*time.Minute, 1234.5678)
	}
	s.settle("minutes")
	ctx := browse(t)
	atStart(t, ctx, deaf)
	do(t, ctx, chromedp.Navigate(s.url("/views/minutes")))
	cells := `[...document.querySelectorAll("#view-rows tr")].map((r) => [...r.children].slice(0, 3).map((c) => c.textContent).join(" ")).join("|")`
	see(t, ctx, "#row-count", "4 rows")
	before := eval[string](t, ctx, cells)
	drawn := browse(t)
	do(t, drawn, chromedp.Navigate(s.url("/views/minutes")))
	become(t, drawn, `document.querySelector("#view-rows [data-label]")`)
	if after := eval[string](t, drawn, cells); after != before || !strings.Contains(before, "1,234.57") {
		t.Errorf("before its script: %s\nafter: %s", before, after)
	}
}

func TestAStreamsPageShowsWhoReadsItAndHowFarBehind(t *testing.T) {
	t.Parallel()
	s := till(t)
	for range 3 {
		s.sell(time.Minute, 1)
	}
	s.must("POST", "/v1/streams/sales/groups/cards/poll", `{"member":"m","max":1}`, nil)
	s.must("POST", "/v1/streams/sales/groups/cards/commit", `{"member":"m","offsets":{"0":1}}`, nil)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/streams/sales")))
	see(t, ctx, "#groups tbody", "cards")
	if got := eval[string](t, ctx, `[...document.querySelectorAll("#groups tbody td")].map((c) => c.textContent).slice(0, 3).join(" ")`); got != "cards 1 2" {
		t.Errorf("%s", got)
	}
	see(t, ctx, "#readers", "minutes")
}

// Every queue of the server stands on the page with its bound.
func TestOpsShowsQueuesWithTheirBounds(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.sell(time.Minute, 1)
	s.settle("minutes")
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/ops")))
	see(t, ctx, "#ops", "Commit, 99 %")
	for _, id := range []string{"queue", "waiting", "tail", "pending", "cache", "state", "sockets", "queries", "queued"} {
		if !eval[bool](t, ctx, fmt.Sprintf(`!!document.querySelector("#g-%s meter")`, id)) {
			t.Errorf("%s has no bound", id)
		}
	}
	for _, column := range []string{"events behind", "state in memory", "late events"} {
		see(t, ctx, "#ops", column)
	}
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
}
