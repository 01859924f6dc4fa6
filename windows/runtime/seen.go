package runtime

import (
	"encoding/json"
	"errors"
	"fmt"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/stream"
)

// EachSeen calls f with the place in the log up to which each view and alert has read, before the log
// is open: a log that ends before one of them has lost its tail.
func EachSeen(store *kv.Store, cat *catalog.Catalog, f func(who string, p stream.Position)) error {
	for _, kind := range kinds {
		for _, e := range cat.List(kind) {
			var doc stored
			if err := json.Unmarshal(e.Doc, &doc); err != nil {
				return fmt.Errorf("%s %s: %w", kind, e.Name, err)
			}
			versions := []uint32{doc.Version}
			if doc.Serving != nil {
				versions = append(versions, doc.Serving.Version)
			}
			for _, version := range versions {
				p, err := getJSON[progress](store, progressKey(e.ID, version))
				if errors.Is(err, kv.ErrNotFound) {
					continue
				}
				if err != nil {
					return fmt.Errorf("%s %s: %w", kind, e.Name, err)
				}
				f(fmt.Sprintf("%s %s", kind, e.Name), p.Position)
			}
		}
	}
	return nil
}
