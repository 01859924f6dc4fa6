package ui

import (
	"encoding/json"
	"fmt"
	"strings"
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
}

// Link is a name with its title.
type Link struct{ Name, Title string }

// Overview is the first page.
type Overview struct {
	Streams []StreamLine
	Views   []ViewLine
	Alerts  []Link
	// Address is where this server listens, for the first curl line.
	Address string
}

// StreamLine is a stream in a list.
type StreamLine struct {
	Name       string
	Accepted   int64
	DeadLetter int64
	Partitions int
}

// ViewLine is a view in a list.
type ViewLine struct {
	Name, State, Watermark string
	Lag                    int64
}

// Dashboard is a page of panels.
type Dashboard struct {
	Name, Title, Range, TZ string
	Panels                 []Panel
}

// Ranges are the presets of the range picker.
var Ranges = []Link{
	{"now-5m", "last 5 minutes"},
	{"now-15m", "last 15 minutes"},
	{"now-1h", "last hour"},
	{"now-6h", "last 6 hours"},
	{"now-24h", "last 24 hours"},
	{"now-7d", "last 7 days"},
	{"now-30d", "last 30 days"},
}

// Panel is one panel with what it shows at first.
type Panel struct {
	ID, Title, Type string
	// Config is what the script gets: the panel's definition and the view's columns.
	Config any
	// Grid is x, y, width and height in twelfths and rows.
	Grid [4]int
	// Text of a text panel.
	Text  string
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

// Class says whether the panel takes the whole width on a medium screen.
func (p Panel) Class() string {
	if p.Grid[2] >= 6 {
		return "panel wide"
	}
	return "panel"
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
	Columns     []Column
	NoColumns   []string // fields that are kept but are no columns
	Partitions  [][]string
	DeadLetters []DeadLetter
	Events      [][3]string // place, time, event
}

// Fact is a name with a value.
type Fact struct{ Name, Value string }

// DeadLetter is an input that could not be used.
type DeadLetter struct{ Reason, Raw, When string }

// ViewPage is all about one view.
type ViewPage struct {
	Name, SQL, Plan string
	Facts           []Fact
	Rows            Table
	Errors          []DeadLetter
	Late            [][3]string // event, watermark met, windows that refused
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
