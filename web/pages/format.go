package pages

import (
	"strconv"
	"strings"
	"time"

	"tidemark/storage/row"
	"tidemark/web/ui"
)

// shown writes a value as the page's script does, so that nothing jumps when it takes over: numbers
// grouped by thousands with at most two digits behind the point, times as clocks in the board's
// zone.
func shown(v *row.Vector, i int, unit string, tz *time.Location) string {
	if v.IsNull(i) {
		return "–"
	}
	text := row.TextOf(v, i)
	switch {
	case v.Type.Kind == row.Timestamp:
		at, err := time.Parse("2006-01-02 15:04:05.999999", text)
		if err != nil {
			return text
		}
		return clock(at.In(tz), time.Now().In(tz))
	case v.Type.IsNumeric():
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.ContainsAny(text, "nN") {
			return text
		}
		return number(f, unit)
	case text == "":
		return "(empty)"
	}
	return text
}

// clock is the time of day, with the day before it when it is not today's.
func clock(at, now time.Time) string {
	text := at.Format("15:04:05")
	if at.Second() == 0 {
		text = at.Format("15:04")
	}
	if at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		text = at.Format("02 Jan ") + text
	}
	return text
}

var signs = map[string]string{"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥"}

// number groups by thousands; from 100,000 on it is short.
func number(f float64, unit string) string {
	sign := ""
	if f < 0 {
		sign, f = "-", -f
	}
	money, isMoney := signs[unit]
	var text string
	switch {
	case f >= 1e9:
		text = short(f/1e9) + "B"
	case f >= 1e6:
		text = short(f/1e6) + "M"
	case f >= 1e5:
		text = short(f/1e3) + "K"
	default:
		text = strconv.FormatFloat(f, 'f', 2, 64)
		whole, part, _ := strings.Cut(text, ".")
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
		if !isMoney {
			part = strings.TrimRight(part, "0")
		}
		if text = whole; part != "" {
			text += "." + part
		}
	}
	switch {
	case isMoney:
		return sign + money + text
	case unit == "":
		return sign + text
	}
	return sign + text + " " + unit
}

func short(f float64) string { return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") }

// pick keeps the columns that a panel shows, and names them as its script does.
func pick(t ui.Table, names []string) ui.Table {
	var out ui.Table
	var at []int
	for i, c := range t.Columns {
		for _, n := range names {
			if strings.EqualFold(c.Name, n) {
				at = append(at, i)
				out.Columns = append(out.Columns, c)
				break
			}
		}
	}
	if len(at) == 0 {
		return t
	}
	for _, r := range t.Rows {
		cells := make([]string, len(at))
		for j, i := range at {
			cells[j] = r.Cells[i]
		}
		out.Rows = append(out.Rows, ui.Row{Cells: cells, Status: r.Status})
	}
	return out
}
