package auth_test

import (
	"encoding/json"
	"testing"

	"tidemark/storage/catalog"
	"tidemark/web/auth"
)

// What stands for a hidden column can't be worked out, whatever program made the link.
func TestALinkWithoutSaltGetsOne(t *testing.T) {
	t.Parallel()
	cat := openCatalog(t)
	open := func() *auth.Keys {
		keys, err := auth.Open(cat, auth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(keys.Close)
		return keys
	}
	first := open()
	if _, err := cat.Put(catalog.Dashboard, "shop", []byte(`{"title":"Shop","panels":[]}`), 0); err != nil {
		t.Fatal(err)
	}
	made, err := first.MakeLink("shop", auth.LinkDefinition{}, "ops")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	e := cat.List(catalog.Link)[0]
	if err := json.Unmarshal(e.Doc, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "salt")
	text, _ := json.Marshal(doc)
	if _, err := cat.Put(catalog.Link, e.Name, text, 0); err != nil {
		t.Fatal(err)
	}
	row := func() string {
		for _, l := range open().Links("shop") {
			if l.ID == made.ID {
				return l.Row([]byte("ada"))
			}
		}
		t.Fatal("the link is gone")
		return ""
	}
	if a, b := row(), row(); a == b {
		t.Errorf("two processes make %s of it", a)
	}
}
