package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The benchmarks over websockets run through, small, and print what they are for.
func TestBenchmarksOverWebsocketsSeeEveryEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		lines []string
	}{
		"latency": {
			[]string{"latency", "--duration", "200ms", "--rate", "500", "--lanes", "4"},
			[]string{"POST, fsync, view, websocket", "an fsync (", "difference to the fsync"},
		},
		"fanout": {
			[]string{"fanout", "--subscribers", "5", "--requests", "10", "--paced", "5", "--rate", "100"},
			[]string{"memory of the server for a subscriber", "p99 of 25 frames", "the same beside 1 stalled", "bare broadcast of the same frames", "ratio "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := tidemark(t.Context(), slices.Concat([]string{"bench"}, c.args, []string{"--dir", tempDir(t)})...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, line := range c.lines {
				if !strings.Contains(string(out), line) {
					t.Errorf("no %q in\n%s", line, out)
				}
			}
		})
	}
}

func TestRowsOfAFrameAreFoundWithoutDecodingIt(t *testing.T) {
	t.Parallel()
	frame := []byte(`{"type":"changes","id":"0","seq":3,"changes":[{"op":"-","row":{"part":4,"n":10,"last":7}},{"op":"+","row":{"part":4,"n":20,"last":71},"status":"provisional"},{"op":"+","row":{"part":12,"n":1,"last":0}}]}`)
	var got [][2]int64
	rowsOf(frame, func(part, last int64) { got = append(got, [2]int64{part, last}) })
	if want := [][2]int64{{4, 7}, {4, 71}, {12, 0}}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	if got := newest(frame); got != 71 {
		t.Errorf("the newest request is %d, not 71", got)
	}
}

func TestAQuantileOfFsyncsLiesWithinItsBucket(t *testing.T) {
	t.Parallel()
	before := fsyncs{bounds: []float64{0.001, 0.002, 0.004}, counts: []float64{5, 5, 5}}
	f := fsyncs{bounds: before.bounds, counts: []float64{5, 105, 205}}.since(before)
	if got, want := f.quantile(0.5), 2*time.Millisecond; got != want {
		t.Errorf("the median is %v, not %v", got, want)
	}
	if got, want := f.quantile(0.75), 3*time.Millisecond; got != want {
		t.Errorf("the third quartile is %v, not %v", got, want)
	}
}
