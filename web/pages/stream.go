package pages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/group"
	"tidemark/web/ui"
)

// How much a page shows of long lists.
const (
	shownEvents  = 20
	shownLetters = 20
	shownRows    = 100
)

func (d Deps) stream(c *fiber.Ctx) (content, error) {
	s, err := d.Streams.Get(strings.Clone(c.Params("name")))
	if err != nil {
		return content{}, err
	}
	st, err := d.Log.Stats(s.ID)
	if err != nil {
		return content{}, err
	}
	p := ui.StreamPage{Name: s.Name, NoColumns: s.Schema.Uncolumned}
	timeField := s.Config.TimeField
	if timeField == "" {
		timeField = "none: the append time counts"
	}
	if !s.Schema.Declared {
		p.Inferred = fmt.Sprintf("Columns and time field (%s) were found by looking at the events. PUT /v1/streams/%s with columns and time_field fixes them.", timeField, s.Name)
	}
	dead := ui.Fact{Name: "dead letters", Value: fmt.Sprint(st.DeadLetters)}
	if st.DeadLetters > 0 {
		dead.Tone = "warn"
	}
	p.Facts = []ui.Fact{
		{Name: "events", Value: fmt.Sprint(st.Accepted)},
		{Name: "last event", Value: lastEvent(st)},
		{Name: "doubles left out", Value: fmt.Sprint(st.Duplicates), Title: "events whose id was known"},
		dead,
		{Name: "size", Value: bytes(size(st))},
		{Name: "time field", Value: timeField},
		{Name: "out of order by", Value: fmt.Sprint(s.Config.MaxOutOfOrderness), Title: "how far behind the newest event others may come and still be in time"},
	}
	for _, f := range s.Schema.Fields {
		p.Columns = append(p.Columns, ui.Column{Name: f.Name, Type: f.Type.String()})
	}
	for i, part := range st.Partitions {
		watermark := "–"
		if part.HasCounted {
			watermark = instant(part.MaxCounted - int64(s.Config.MaxOutOfOrderness.Micros()))
		}
		p.Partitions = append(p.Partitions, []string{fmt.Sprint(i), fmt.Sprint(part.First), fmt.Sprint(part.Next), watermark, bytes(part.Bytes)})
		if err := d.newest(&p, s.ID, stream.Partition(i), part); err != nil {
			return content{}, err
		}
	}
	for _, kind := range []catalog.Kind{catalog.View, catalog.Alert} {
		views, err := d.Views.ListKind(kind)
		if err != nil {
			return content{}, err
		}
		for _, v := range views {
			if slices.Contains(v.Sources, s.Name) {
				p.Readers = append(p.Readers, line(v))
			}
		}
	}
	if p.Groups, err = d.groups(s.ID); err != nil {
		return content{}, err
	}
	if p.DeadLetters, err = d.deadLetters(s.ID, shownLetters); err != nil {
		return content{}, err
	}
	return content{title: s.Name, section: "", draw: func(string) templ.Component { return ui.StreamView(p) }}, nil
}

// groups are the consumer groups of a stream: who reads, and how far behind.
func (d Deps) groups(id stream.ID) ([][]string, error) {
	if d.Groups == nil {
		return nil, nil
	}
	list, err := d.Groups(id)
	out := make([][]string, len(list))
	for i, g := range list {
		behind, lag := int64(0), time.Duration(0)
		for _, p := range g.Partitions {
			behind += p.LagEvents
			lag = max(lag, p.Lag)
		}
		out[i] = []string{g.Name, fmt.Sprint(len(g.Members)), fmt.Sprint(behind), fmt.Sprintf("%.1f", lag.Seconds()), fmt.Sprint(g.DeadLetters)}
	}
	return out, err
}

// newest adds the newest events of a partition, newest first.
func (d Deps) newest(p *ui.StreamPage, id stream.ID, n stream.Partition, st stream.PartitionStats) error {
	batches, err := d.Log.Slice(id, n, max(st.First, st.Next-shownEvents), shownEvents)
	if err != nil {
		return err
	}
	for b := len(batches) - 1; b >= 0; b-- {
		for i := batches[b].Len - 1; i >= 0 && len(p.Events) < shownEvents; i-- {
			raw := batches[b].Raw(i)
			p.Events = append(p.Events, [3]string{fmt.Sprintf("%d/%d", n, batches[b].Offset(i)), instant(batches[b].Times[i]), clip(raw, 400)})
		}
	}
	return nil
}

func instant(micros int64) string { return string(row.FormatTimestamp(nil, micros)) }

// clip bounds a text that a page shows.
func clip(raw []byte, most int) string {
	if len(raw) <= most {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + " …"
}

// lettersOf are the oldest dead letters of a stream, and of its groups behind them.
func (d Deps) lettersOf(id stream.ID, limit int) ([]stream.DeadLetter, error) {
	letters, err := d.Log.DeadLetters(id, 0, limit)
	if err != nil || d.GroupLetters == nil {
		return letters, err
	}
	more, err := d.GroupLetters(id, limit)
	return append(letters, more...), err
}

// deadLetters are so many of each kind as a page shows them.
func (d Deps) deadLetters(id stream.ID, limit int) ([]ui.DeadLetter, error) {
	letters, err := d.lettersOf(id, limit)
	if err != nil {
		return nil, err
	}
	out := make([]ui.DeadLetter, len(letters))
	for i, l := range letters {
		out[i] = ui.DeadLetter{
			ID: fmt.Sprint(l.Number), Reason: l.Reason, Raw: clip(l.Raw, 1<<20), Short: clip(l.Raw, 160), When: instant(l.FirstSeen), Attempts: l.Attempts,
		}
		if l.Origin == "group" && l.Place != nil {
			out[i].ID = group.Letter{Group: l.Group, Place: *l.Place}.String()
			out[i].Group, out[i].Place = l.Group, l.Place.String()
		}
	}
	return out, nil
}

// countedLetters is how many dead letters the page looks at to count their reasons.
const countedLetters = 1000

// letters shows the dead letters of all streams.
func (d Deps) letters(*fiber.Ctx) (content, error) {
	var list []ui.StreamLetters
	for _, s := range d.Streams.List() {
		letters, err := d.lettersOf(s.ID, countedLetters)
		if err != nil || len(letters) == 0 {
			continue // deleted meanwhile, or none
		}
		one := ui.StreamLetters{Stream: s.Name, Total: int64(len(letters))}
		reasons := map[string]int{}
		for _, l := range letters {
			reasons[l.Code]++
		}
		for code, n := range reasons {
			one.Reasons = append(one.Reasons, ui.Fact{Name: code, Value: fmt.Sprint(n)})
		}
		slices.SortFunc(one.Reasons, func(a, b ui.Fact) int { return strings.Compare(a.Name, b.Name) })
		if one.Letters, err = d.deadLetters(s.ID, shownLetters); err != nil {
			continue
		}
		list = append(list, one)
	}
	return content{title: "Dead letters", section: "dead-letters", draw: func(string) templ.Component { return ui.LettersPage(list) }}, nil
}
