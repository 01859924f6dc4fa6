package bind

import (
	"strings"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/web/live"
)

// Relations finds what a name stands for in the catalog. late_<view> is the stream of a view's
// late events.
func Relations(cat *catalog.Catalog) live.Relations {
	return func(name string) (live.Relation, error) {
		if e, ok := cat.Lookup(name); ok {
			switch e.Kind {
			case catalog.Stream:
				return live.Relation{Kind: live.Stream, Name: name, ID: e.ID}, nil
			case catalog.View:
				return live.Relation{Kind: live.View, Name: name, ID: e.ID}, nil
			case catalog.Alert:
				return live.Relation{Kind: live.Alert, Name: name, ID: e.ID}, nil
			}
		}
		if view, late := strings.CutPrefix(name, "late_"); late {
			if e, ok := cat.Lookup(view); ok && e.Kind != catalog.Stream {
				return live.Relation{Kind: live.LateOf, Name: view, ID: e.ID}, nil
			}
		}
		return live.Relation{}, problem.New(404, "unknown_relation", "there is no stream, view or alert %.80q", name).
			WithHint("GET /v1/streams, /v1/views and /v1/alerts list what there is")
	}
}

// Exists says whether there is a relation of a name.
func Exists(cat *catalog.Catalog) func(name string) bool {
	find := Relations(cat)
	return func(name string) bool {
		_, err := find(name)
		return err == nil
	}
}
