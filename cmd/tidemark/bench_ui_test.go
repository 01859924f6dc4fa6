package main

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// BenchmarkDashboard reports what a tick of a busy dashboard costs in a browser: `make bench-ui`.
func BenchmarkDashboard(b *testing.B) {
	script, err := os.ReadFile(os.Getenv("BENCH_UI"))
	if err != nil {
		b.Fatal("run it by `make bench-ui`, which builds the script: ", err)
	}
	ctx := browse(b)
	for b.Loop() {
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Evaluate[chromedp.Void](string(script)+"; void 0")); err != nil {
			b.Fatal(err)
		}
		become(b, ctx, `window.benched`)
		b.ReportMetric(eval[float64](b, ctx, `window.benched`), "ms/tick")
	}
}
