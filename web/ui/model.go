package ui

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Frame is what every page has around its content.
type Frame struct {
	Title string
	// Section is the part of the navigation that is marked: overview, streams, views or a
	// dashboard's name.
	Section    string
	Nonce      string
	Demo       bool
	Dashboards []Link
	// CSRF is the token of the session's forms, Who the name of its key; empty without a session.
	CSRF, Who string
	// Bare: no navigation, for who is not signed in.
	Bare bool
	// Link is the token of a page that was shared; its script shows it to the server.
	Link string
}

// Link is a name with its title; Note says more.
type Link struct{ Name, Title, Note string }

// Overview is the first page.
type Overview struct {
	Streams    []StreamLine
	Views      []ViewLine
	Dashboards []Link
	Troubles   []Trouble
	// Address is where this server listens, for the first curl line.
	Address string
}

// Trouble is something that needs a look: what, why, and the page to go to. Tone is warn or bad.
type Trouble struct{ What, Text, Link, Tone string }

// StreamLine is a stream in a list.
type StreamLine struct {
	Name                             string
	Accepted, Duplicates, DeadLetter int64
	Size, Last                       string
}

// ViewLine is a view in a list.
type ViewLine struct {
	Name, State, Watermark, Behind           string
	Alert                                    bool
	Lag, Rows, Corrected, Dropped, RowErrors int64
	LagSeconds                               float64
}

// Dashboard is a page of panels.
type Dashboard struct {
	Name, Title, Range, TZ string
	Panels                 []Panel
	// Doc is the definition as it is kept, for the editor, and Tag its ETag. Managed names who else keeps it.
	Doc, Tag, Managed string
	MayEdit           bool
	// Annotations are the notes of the range as JSON, [] when there are none.
	Annotations string
	// Shared: the page of a read-only link; Filters are the link's, as a JSON object.
	Shared  bool
	Filters string
}

// Ranges are the presets of the range picker.
var Ranges = []Link{
	{"now-5m", "last 5 minutes", ""},
	{"now-15m", "last 15 minutes", ""},
	{"now-1h", "last hour", ""},
	{"now-6h", "last 6 hours", ""},
	{"now-24h", "last 24 hours", ""},
	{"now-7d", "last 7 days", ""},
	{"now-30d", "last 30 days", ""},
	{"today", "today", ""},
	{"yesterday", "yesterday", ""},
	{"month", "this month", ""},
}

// Panel is one panel with what it shows at first.
type Panel struct {
	ID, Title, Type string
	// Config is what the script gets: the panel's definition and the view's columns.
	Config any
	// Grid is x, y, width and height in twelfths and rows.
	Grid [4]int
	// HTML of a text panel, made of its Markdown.
	HTML  string
	First Table
	// Measure is the column of First that a stat shows; Unit stands behind it.
	Measure string
	Unit    string
}

// JSON is the panel's configuration for the script.
func (p Panel) JSON() string {
	b, err := json.Marshal(p.Config)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// Name is the panel's title, or what it shows.
func (p Panel) Name() string {
	if p.Title != "" {
		return p.Title
	}
	return p.ID
}

// Class says whether the panel takes the whole width on a medium screen.
func (p Panel) Class() string {
	class := "panel " + p.Type
	if p.Grid[2] >= 6 {
		class += " wide"
	}
	return class
}

// Stat is the measure of the last row, or a dash.
func (p Panel) Stat() string {
	for i, c := range p.First.Columns {
		if strings.EqualFold(c.Name, p.Measure) && len(p.First.Rows) > 0 {
			return p.First.Rows[len(p.First.Rows)-1].Cells[i]
		}
	}
	return "–"
}

// Column is a column of a table; Number ones are set to the right.
type Column struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Number  bool   `json:"-"`
	Measure bool   `json:"measure"`
	Merge   string `json:"merge,omitempty"`
}

// Table is rows as text.
type Table struct {
	Columns []Column
	Rows    []Row
}

// Row is one row of a table with its status.
type Row struct {
	Cells  []string
	Status string
}

// Badge is the class of a status' badge.
func (r Row) Badge() string {
	if r.Status == "provisional" {
		return "badge open"
	}
	return "badge " + r.Status
}

// StatusText is the status as people read it.
func (r Row) StatusText() string {
	if r.Status == "provisional" {
		return "open"
	}
	return r.Status
}

// ColumnsJSON is the columns for the script.
func (t Table) ColumnsJSON() string {
	b, err := json.Marshal(t.Columns)
	if err != nil {
		return "[]"
	}
	return string(b)
}

// StreamPage is all about one stream.
type StreamPage struct {
	Name        string
	Facts       []Fact
	Inferred    string // how the time field was chosen
	Columns     []Column
	NoColumns   []string // fields that are kept but are no columns
	Partitions  [][]string
	Readers     []ViewLine
	Groups      [][]string // consumer groups, as groupColumns say
	DeadLetters []DeadLetter
	Events      [][3]string // place, time, event
}

// said is an instant, in UTC, or a whole number as people read it; other texts stay what they are.
func said(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return count(n)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	if at = at.UTC(); at.Format(time.DateOnly) == time.Now().UTC().Format(time.DateOnly) {
		return at.Format("15:04:05") + " UTC"
	}
	return at.Format("2 Jan 2006 15:04:05") + " UTC"
}

// titleOf says more about a fact: what it was made of, when nothing else does.
func titleOf(f Fact) string {
	if f.Title == "" && said(f.Value) != f.Value {
		return f.Value
	}
	return f.Title
}

// Fact is a name with a value. Tone is good, warn, bad or empty; Title says more.
type Fact struct{ Name, Value, Tone, Title string }

// DeadLetter is an input that could not be used.
type DeadLetter struct {
	ID, Reason, Raw, Short, When string
	Attempts                     int
	// Group is the consumer group that gave up on the event at Place; empty: it was never appended.
	Group, Place string
}

// StreamLetters are the dead letters of one stream, counted by their reason.
type StreamLetters struct {
	Stream  string
	Total   int64
	Reasons []Fact
	Letters []DeadLetter
}

// ViewPage is all about one view.
type ViewPage struct {
	Name, Kind, State, Reason, SQL, Plan string
	Facts                                []Fact
	Held                                 string // what holds the watermark back
	Warnings                             []string
	Rows                                 Table
	RowCount                             string
	Errors                               []DeadLetter
	Late                                 []LateLine
	LateNote                             string
	// LateBars are of one span of time each; the highest of them stand for LateMost and LateWorst.
	LateBars            []LateBar
	LateMost, LateWorst string
	// CorrectedBy and LateBy count corrections and refused events by how late they came.
	CorrectedBy, LateBy []Fact
	Dashboards          []Link
}

// LateLine is an event that was refused.
type LateLine struct{ Time, By, Windows, Event string }

// LateBar tells of what came late in a span of time: how high the bars are of how many rows were
// corrected and events refused, and of how late the latest of them came. Heights are of 70.
type LateBar struct {
	From, Title                                string
	Corrected, Refused, CorrectedBy, RefusedBy int
}

// DashboardsJSON is where a panel could be put.
func (v ViewPage) DashboardsJSON() string { return linksJSON(v.Dashboards) }

func linksJSON(list []Link) string {
	out := []map[string]string{}
	for _, l := range list {
		out = append(out, map[string]string{"name": l.Name, "title": l.Title})
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "[]"
	}
	return string(b)
}

// Ops is what operators watch.
type Ops struct {
	Troubles []Trouble
	Gauges   []Gauge
	Tables   []OpsTable
}

// Gauge is one figure. One with a Total is a counter that the page shows as a rate; one with a
// Bound fills a meter by its Share in percent.
type Gauge struct{ ID, Title, Value, Total, Unit, Bound, Share, Note string }

// partitionColumns head the table of a stream's partitions.
var partitionColumns = []string{"partition", "first offset", "next offset", "watermark", "size"}

// groupColumns head the table of a stream's consumer groups.
var groupColumns = []string{"group", "members", "events behind", "seconds behind", "dead letters"}

// pageOf is where the page of a thing lies that a column names, or empty.
func pageOf(column string) string {
	return map[string]string{"stream": "/streams/", "view": "/views/"}[column]
}

// labelOf is the head of a cell where the table is too narrow for a row of heads.
func labelOf(columns []string, i int) string {
	if i < len(columns) {
		return columns[i]
	}
	return ""
}

// OpsTable is figures by name.
type OpsTable struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// Settings are keys and retention.
type Settings struct {
	AuthOn, MayKeys, MayStreams bool
	// CSRF is the token of the session's forms.
	CSRF    string
	Keys    []KeyLine
	Streams []Kept
}

// Kept is how long a stream's events are kept, and what it holds. Wrong says why what was asked for
// can't be, Said that it was done.
type Kept struct{ Stream, Age, Bytes, Holds, Remembers, Disorder, Wrong, Said string }

// Or is a text, or what stands for none.
func (k Kept) Or(text, none string) string {
	if text == "" {
		return none
	}
	return text
}

// KeyLine is a key in a list.
type KeyLine struct{ Name, Scopes, Streams, Origins, Rate, Created string }

// Build is what the form for a new view starts from.
type Build struct {
	Streams           []string
	Stream, SQL, Name string
	// Measure is what is asked for at first.
	Measure    string
	Sources    map[string][]Column
	Dashboards []Link
}

// SourcesJSON is the streams' columns for the script.
func (b Build) SourcesJSON() string {
	out, err := json.Marshal(b.Sources)
	if err != nil {
		return "{}"
	}
	return string(out)
}

// DashboardsJSON is where a panel could be put.
func (b Build) DashboardsJSON() string { return linksJSON(b.Dashboards) }

// count is a number as people read it: 12,345.
func count(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// gridCSS places the panels of a dashboard; it stands in the page's style element.
func gridCSS(panels []Panel) string {
	var b strings.Builder
	b.WriteString("@media (min-width:1001px){")
	for i, p := range panels {
		fmt.Fprintf(&b, "#panel-%d{grid-area:%d/%d/span %d/span %d}", i, p.Grid[1]+1, p.Grid[0]+1, p.Grid[3], p.Grid[2])
	}
	b.WriteString("}")
	for i, p := range panels {
		fmt.Fprintf(&b, "#panel-%d{--rows:%d}", i, p.Grid[3])
	}
	return b.String()
}
