package bind

import (
	"tidemark/web/auth"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Narrow adds to a condition on a view what a link is held to.
func Narrow(views *runtime.Service) func(l *auth.Link, view, where string) (string, error) {
	return func(l *auth.Link, view, where string) (string, error) { return narrow(views, l, view, where) }
}

// narrow is a condition of a reader who came by a link, together with the link's own. The reader's
// must be a condition by itself: one that closes a bracket of ours is none.
func narrow(views *runtime.Service, l *auth.Link, view, where string) (string, error) {
	info, err := views.Get(view)
	if err != nil {
		return "", err
	}
	fields, err := views.Fields(view)
	if err != nil {
		return "", err
	}
	if own, err := query.CompileWhere(views.Parse, fields, where); err != nil || own == nil {
		where = ""
		if err != nil {
			return "", err
		}
	}
	columns := make([]auth.Column, len(info.Columns))
	for i, c := range info.Columns {
		columns[i] = auth.Column{Name: c.Name, Type: c.Type, Measure: c.Measure}
	}
	held := l.Where(view, columns)
	switch {
	case held == "":
		return where, nil
	case where == "":
		return held, nil
	}
	return held + " AND (\n" + where + "\n)", nil
}
