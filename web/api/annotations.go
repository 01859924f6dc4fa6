package api

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/web/auth"
)

// Annotations: POST, GET and DELETE /v1/dashboards/{name}/annotations. They are marks on a dashboard's
// charts, such as a deploy or a campaign.

const (
	maxAnnotations    = 1000
	maxAnnotationText = 500
)

// Annotation is an instant, or a span of time, with what happened then.
type Annotation struct {
	ID   string     `json:"id"`
	Time time.Time  `json:"time"`
	End  *time.Time `json:"end"`
	Text string     `json:"text"`
	// Panel is the one panel that shows it; nil: all that have a time axis.
	Panel   *string   `json:"panel"`
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"`
}

// annotations are those of one dashboard, by time, as they are kept. Board is the dashboard's number:
// one that is made anew has none.
type annotations struct {
	Board uint64       `json:"board"`
	Last  uint64       `json:"last"`
	Items []Annotation `json:"items"`
}

// AnnotationsOf reads the annotations of a dashboard.
func AnnotationsOf(docs interface {
	Get(kind catalog.Kind, name string) (catalog.Entry, bool)
}, dashboard string,
) []Annotation {
	return readAnnotations(docs, dashboard).Items
}

func readAnnotations(docs interface {
	Get(kind catalog.Kind, name string) (catalog.Entry, bool)
}, dashboard string,
) annotations {
	board, _ := docs.Get(catalog.Dashboard, dashboard)
	e, ok := docs.Get(catalog.Notes, dashboard)
	var a annotations
	if !ok || json.Unmarshal(e.Doc, &a) != nil || a.Board != board.ID {
		a = annotations{Board: board.ID}
	}
	return a
}

func (e *endpoints) keepAnnotations(dashboard string, a annotations) error {
	doc, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = e.Dashboards.Put(catalog.Notes, dashboard, doc, 0)
	return err
}

// annotate is POST /v1/dashboards/{name}/annotations.
func (e *endpoints) annotate(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	entry, err := e.dashboard(c)
	if err != nil {
		return err
	}
	var body struct {
		Time  string `json:"time"`
		End   string `json:"end"`
		Text  string `json:"text"`
		Panel string `json:"panel"`
	}
	if err := decode(c, &body, `send {"time":"2024-01-01T12:00:00Z","text":"deploy 42"}`); err != nil {
		return err
	}
	now := time.Now().UTC()
	made := Annotation{Time: now.Truncate(time.Millisecond), Text: strings.TrimSpace(body.Text), Created: now.Truncate(time.Microsecond), By: auth.Of(c).Name}
	var wrong []string
	at := func(what, text string) (out time.Time) {
		micros, err := row.ParseTime([]byte(text))
		if err != nil {
			wrong = append(wrong, what+": not a timestamp: "+strconv.Quote(text[:min(len(text), 40)]))
			return out
		}
		return time.UnixMicro(micros).UTC()
	}
	if body.Time != "" {
		made.Time = at("time", body.Time)
	}
	if body.End != "" {
		end := at("end", body.End)
		if made.End = &end; !end.After(made.Time) && len(wrong) == 0 {
			wrong = append(wrong, "end does not lie behind time")
		}
	}
	if made.Text == "" || utf8.RuneCountInString(made.Text) > maxAnnotationText {
		wrong = append(wrong, "text has 1 to "+strconv.Itoa(maxAnnotationText)+" letters")
	}
	if body.Panel != "" {
		var d Dashboard
		if err := json.Unmarshal(entry.Doc, &d); err != nil {
			return err
		}
		if !slices.ContainsFunc(d.Panels, func(p Panel) bool { return p.ID == body.Panel }) {
			wrong = append(wrong, "the dashboard has no panel "+strconv.Quote(body.Panel[:min(len(body.Panel), 64)]))
		}
		made.Panel = &body.Panel
	}
	if len(wrong) > 0 {
		return problem.New(422, "bad_annotation", "%s", strings.Join(wrong, "; ")).WithHint(`send {"time":"2024-01-01T12:00:00Z","text":"deploy 42","panel":"rev"}; time is now when it is left out`)
	}
	e.notes.Lock()
	defer e.notes.Unlock()
	a := readAnnotations(e.Dashboards, entry.Name)
	if len(a.Items) >= maxAnnotations {
		return problem.New(409, "too_many_annotations", "the dashboard %s has %d annotations already", entry.Name, maxAnnotations).
			WithHint("remove old ones with DELETE /v1/dashboards/%s/annotations/{id}", entry.Name)
	}
	a.Last++
	made.ID = strconv.FormatUint(a.Last, 10)
	i, _ := slices.BinarySearchFunc(a.Items, made, func(x, y Annotation) int { return cmp.Or(x.Time.Compare(y.Time), -1) })
	a.Items = slices.Insert(a.Items, i, made)
	if err := e.keepAnnotations(entry.Name, a); err != nil {
		return err
	}
	return created(c, true, made)
}

// listAnnotations is GET /v1/dashboards/{name}/annotations?from=&to=&panel=: those that touch the
// span, by time.
func (e *endpoints) listAnnotations(c *fiber.Ctx) error {
	if err := allow(c, "from", "to", "panel"); err != nil {
		return err
	}
	entry, err := e.dashboard(c)
	if err != nil {
		return err
	}
	l := auth.Of(c).Link()
	if l != nil && l.Dashboard != entry.Name {
		return problem.New(403, "read_only_link", "the link is for another dashboard").WithHint("use a key for the rest")
	}
	var ends [2]*time.Time
	for i, name := range []string{"from", "to"} {
		if text := c.Query(name); text != "" {
			micros, err := row.ParseTime([]byte(text))
			if err != nil {
				return badParameter(name, text, "give an instant such as 2024-01-01T12:00:00Z")
			}
			at := time.UnixMicro(micros)
			ends[i] = &at
		}
	}
	panel := c.Query("panel")
	items := []Annotation{}
	for _, a := range AnnotationsOf(e.Dashboards, entry.Name) {
		last := a.Time
		if a.End != nil {
			last = *a.End
		}
		if ends[0] != nil && last.Before(*ends[0]) || ends[1] != nil && !a.Time.Before(*ends[1]) || panel != "" && a.Panel != nil && *a.Panel != panel {
			continue
		}
		if l != nil && !l.Shows(a.Time, last) {
			continue
		}
		if l != nil { // who has a key is nobody's business there
			a.By = ""
		}
		items = append(items, a)
	}
	return c.JSON(fiber.Map{"items": items, "next": nil})
}

// deleteAnnotation is DELETE /v1/dashboards/{name}/annotations/{id}.
func (e *endpoints) deleteAnnotation(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	entry, err := e.dashboard(c)
	if err != nil {
		return err
	}
	id := c.Params("id")
	e.notes.Lock()
	defer e.notes.Unlock()
	a := readAnnotations(e.Dashboards, entry.Name)
	i := slices.IndexFunc(a.Items, func(x Annotation) bool { return x.ID == id })
	if i < 0 {
		return problem.New(404, "unknown_annotation", "the dashboard %s has no annotation %.40q", entry.Name, id).
			WithHint("GET /v1/dashboards/%s/annotations lists those there are", entry.Name)
	}
	a.Items = slices.Delete(a.Items, i, i+1)
	if err := e.keepAnnotations(entry.Name, a); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}
