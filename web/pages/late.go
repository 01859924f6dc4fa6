package pages

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tidemark/web/ui"
	"tidemark/windows/runtime"
)

// lateRead and lateBars bound what a page tells of late events: how many of the newest it
// looks at, and in how many spans of time it counts them.
const (
	lateRead = 2000
	lateBars = 30
)

// lateSteps part what came late by how much: less than each; spans says it in words.
var (
	lateSteps = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
	spans     = []string{"10 s", "1 minute", "10 minutes", "1 hour", "1 day"}
)

// lateness is something that came late: when, in event time, and by how much.
type lateness struct {
	at time.Time
	by time.Duration
}

// late tells of what came late: the events that the view refused, the rows that it corrected, both
// over time and by how much.
func (d Deps) late(p *ui.ViewPage, info runtime.Info) {
	p.LateNote = fmt.Sprintf("An event that comes when its window is final is refused and kept in late_%s.", info.Name)
	if l := info.AllowedLateness; l != nil && *l > 0 {
		p.LateNote = fmt.Sprintf("An event that comes up to %s after its window was final corrects it; later ones are refused and kept in late_%s.", spoken(time.Duration(*l)), info.Name)
	}
	refused := d.refused(p, info.Name)
	changed, whole := d.corrections.of(info.Name)
	p.CorrectedBy = steps(changed, "later", "corrections of rows")
	p.LateBy = steps(refused, "too late", "refused events")
	p.LateBars, p.LateMost, p.LateWorst = bars(changed, refused)
	if !whole {
		p.LateNote += " The change stream is still being read: older corrections first."
	}
	if len(changed) == lateRead || len(refused) == lateRead {
		p.LateNote += fmt.Sprintf(" The charts are of the newest %d.", lateRead)
	}
}

// refused are the newest events that the view refused; the newest of all stand on the page.
func (d Deps) refused(p *ui.ViewPage, view string) []lateness {
	ends, err := d.Views.LateEvents(view, math.MaxInt64, 1)
	if err != nil {
		return nil
	}
	page, err := d.Views.LateEvents(view, max(ends.First, ends.End-lateRead), lateRead)
	if err != nil {
		return nil
	}
	var out []lateness
	for _, l := range slices.Backward(page.Events) {
		at, err1 := time.Parse(time.RFC3339Nano, text(l.Time))
		met, err2 := time.Parse(time.RFC3339Nano, text(l.Watermark))
		by := "–"
		if err1 == nil && err2 == nil {
			out = append(out, lateness{met, met.Sub(at)})
			by = spoken(met.Sub(at))
		}
		if len(p.Late) == shownLetters {
			continue
		}
		windows := make([]string, len(l.Windows))
		for j, w := range l.Windows {
			windows[j] = text(w.Start) + " – " + text(w.End)
		}
		p.Late = append(p.Late, ui.LateLine{Time: text(l.Time), By: by, Windows: strings.Join(windows, ", "), Event: clip(l.Event, 300)})
	}
	return out
}

// steps counts what came late by how much.
func steps(list []lateness, what, of string) []ui.Fact {
	by := make([]int, len(lateSteps)+1)
	most := time.Duration(0)
	for _, l := range list {
		i, _ := slices.BinarySearch(lateSteps, l.by)
		by[i]++
		most = max(most, l.by)
	}
	var out []ui.Fact
	for i, n := range by {
		name := "more than " + spans[len(spans)-1] + " " + what
		if i < len(lateSteps) {
			name = "up to " + spans[i] + " " + what
		}
		if n > 0 {
			out = append(out, ui.Fact{Name: name, Value: fmt.Sprint(n), Title: fmt.Sprintf("of the newest %d %s; the latest came %s %s", len(list), of, spoken(most), what)})
		}
	}
	return out
}

// bars counts what came late in spans of time of one length, and finds the latest of each; most and
// worst are what the highest bars stand for.
func bars(changed, refused []lateness) (out []ui.LateBar, most, worst string) {
	all := slices.Concat(changed, refused)
	if len(all) == 0 {
		return nil, "", ""
	}
	byTime := func(a, b lateness) int { return a.at.Compare(b.at) }
	first, last := slices.MinFunc(all, byTime).at, slices.MaxFunc(all, byTime).at
	step := max(last.Sub(first)/lateBars, time.Second).Truncate(time.Second)
	if first.Add(step * lateBars).Before(last) {
		step += time.Second
	}
	type bin struct {
		n   int
		max time.Duration
	}
	count := func(list []lateness) (bins [lateBars]bin) {
		for _, l := range list {
			b := &bins[min(lateBars-1, int(l.at.Sub(first)/step))]
			b.n++
			b.max = max(b.max, l.by)
		}
		return bins
	}
	c, r := count(changed), count(refused)
	high, long := 0, time.Duration(0)
	for i := range lateBars {
		high, long = max(high, c[i].n+r[i].n), max(long, c[i].max, r[i].max)
	}
	for i := range lateBars {
		from := first.Add(time.Duration(i) * step).UTC()
		bar := ui.LateBar{
			From: from.Format("2006-01-02 15:04:05"), Corrected: share(c[i].n, high), Refused: share(r[i].n, high),
			CorrectedBy: share(int(c[i].max), int(long)), RefusedBy: share(int(r[i].max), int(long)),
		}
		var told []string
		if c[i].n > 0 {
			told = append(told, fmt.Sprintf("%s, up to %s after they were final", plural(int64(c[i].n), "correction"), spoken(c[i].max)))
		}
		if r[i].n > 0 {
			told = append(told, fmt.Sprintf("%s refused, late by up to %s", plural(int64(r[i].n), "event"), spoken(r[i].max)))
		}
		bar.Title = strings.TrimSuffix(bar.From+": "+strings.Join(told, "; "), ": ")
		out = append(out, bar)
	}
	return out, fmt.Sprint(high), spoken(long)
}

// share is how high a bar of 70 is; what is there at all can be seen.
func share(n, of int) int {
	if n <= 0 || of <= 0 {
		return 0
	}
	return max(2, int(float64(n)/float64(of)*70))
}

// spoken is a span of time as people read it: 1h 5m, 12 s.
func spoken(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60), " 0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60), " 0m")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
