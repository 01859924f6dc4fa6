package main

import (
	"fmt"
	"regexp"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestBrowsersSignInWithAKeyOrTheOneTimeLink(t *testing.T) {
	t.Parallel()
	s := till(t)
	var made struct{ Key string }
	s.must("PUT", "/v1/keys/boss", `{"scopes":["admin"]}`, &made)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, ".signin h1", "Sign in")
	if eval[bool](t, ctx, `document.body.innerText.includes("Till")`) {
		t.Error("the sign-in page tells what dashboards there are")
	}
	do(t, ctx, chromedp.SendKeys(chromedp.CSS(".signin [name=key]"), "tdm_wrong"+kb.Enter))
	see(t, ctx, ".signin .note", "no valid key")
	do(t, ctx, chromedp.SendKeys(chromedp.CSS(".signin [name=key]"), made.Key+kb.Enter))
	become(t, ctx, `location.pathname === "/d/till"`)
	see(t, ctx, "#connection", "live") // the socket goes by the cookie

	// A change needs the session's token besides the cookie, which no script can read.
	status := func(headers string) int {
		do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.answered = 0; fetch("/v1/dashboards/mine", {method: "PUT", headers: {"Content-Type": "application/json", `+headers+`},
			body: '{"title":"Mine","panels":[]}'}).then((r) => window.answered = r.status); void 0`))
		become(t, ctx, `window.answered`)
		return eval[int](t, ctx, `window.answered`)
	}
	if got := status(""); got != 403 {
		t.Errorf("a change without the token: %d, not 403", got)
	}
	if got := status(`"X-CSRF-Token": document.querySelector("meta[name=csrf]").content`); got != 201 {
		t.Errorf("a change with the token: %d, not 201", got)
	}
	if got := eval[string](t, ctx, `document.cookie`); got != "" {
		t.Errorf("scripts can read %q", got)
	}
	do(t, ctx, chromedp.Click(chromedp.CSS(`form[action="/sign-out"] button`)))
	see(t, ctx, ".signin h1", "Sign in")
	do(t, ctx, chromedp.Navigate(s.url("/ops")))
	see(t, ctx, ".signin h1", "Sign in")

	// The first start with keys prints a link; it works once.
	s.stop(syscall.SIGTERM)
	s.start()
	var link string
	s.eventually("the link is printed", func() error {
		if link = regexp.MustCompile(`/sign-in\?once=\S+`).FindString(s.log.String()); link == "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	do(t, ctx, chromedp.Navigate(s.url(link)))
	become(t, ctx, `location.pathname === "/"`)
	see(t, ctx, "h1", "Overview")
	do(t, ctx, chromedp.Click(chromedp.CSS(`form[action="/sign-out"] button`)), chromedp.WaitVisible(chromedp.CSS(".signin")), chromedp.Navigate(s.url(link)))
	see(t, ctx, ".signin .note", "was used")
}
