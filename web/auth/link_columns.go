package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

// A link shows the columns that its dashboard's panels use, and no others: not in rows, and not by a
// condition or an order either, which would tell of them one question at a time.

// Columns are those of a view that the link shows, in the order of the view; all says that these are
// all there are.
func (l *Link) Columns(view string, columns []Column) (shown []string, all bool) {
	doc, _ := l.doc()
	for _, c := range columns {
		_, filtered := l.filter(c)
		if filtered || slices.ContainsFunc(doc.Panels, func(p panel) bool { return p.View == view && p.uses(c, columns) }) {
			shown = append(shown, c.Name)
		}
	}
	return shown, len(shown) == len(columns)
}

// filter says whether one of the link's filters is about a column: then its value is no secret.
func (l *Link) filter(c Column) (name string, ok bool) {
	for name := range l.Filters {
		if strings.EqualFold(name, c.Name) && !c.Measure {
			return name, true
		}
	}
	return "", false
}

// uses says whether a panel shows a column of its view, or puts its rows together by it.
func (p panel) uses(c Column, columns []Column) bool {
	named := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, c.Name) })
	}
	switch p.Type {
	case "text":
		return false
	case "feed", "alerts":
		return true
	}
	switch {
	case named(p.X, p.Series) || named(p.Y...):
		return true
	case c.Measure:
		return len(p.Y) == 0
	case p.Type == "table":
		return true
	case p.Type == "toplist" && p.Series == "": // it is labelled by the first column that is no time
		i := slices.IndexFunc(columns, func(o Column) bool { return !o.Measure && o.Type != "TIMESTAMP" && o.Type != "DATE" })
		return i >= 0 && columns[i].Name == c.Name
	}
	return false
}

// Rest is what a condition asks beyond that of a panel of a view, which may be about any column.
func (l *Link) Rest(view, where string) string {
	doc, _ := l.doc()
	for _, p := range doc.Panels {
		if p.View != view || strings.TrimSpace(p.Where) == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(where, "("+p.Where+"\n)"); ok && strings.TrimSpace(rest) == "" {
			return ""
		} else if rest, and := strings.CutPrefix(rest, " AND "); ok && and {
			return rest
		}
	}
	return where
}

// Orders says whether an order is that of a panel of a view.
func (l *Link) Orders(view, order string) bool {
	doc, _ := l.doc()
	return slices.ContainsFunc(doc.Panels, func(p panel) bool { return p.View == view && p.Order == order })
}

// Row is what stands for a row's hidden columns: the same for the same key, and nothing can be told from
// it.
func (l *Link) Row(key []byte) string {
	mac := hmac.New(sha256.New, l.salt)
	mac.Write(key)
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:15])
}
