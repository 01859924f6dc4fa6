package catalog

import (
	"strings"

	"tidemark/storage/problem"
)

// maxName is the longest name; of views and alerts shorter, so that late_ and _changes names fit.
const (
	maxName         = 63
	maxViewName     = 58
	maxNameInDetail = 80
)

// CheckName returns a problem 400 bad_name when a thing of this kind can't have the name.
func CheckName(kind Kind, name string) error {
	limit := maxName
	if kind == View || kind == Alert {
		limit = maxViewName
	}
	shown := name
	if len(shown) > maxNameInDetail {
		shown = shown[:maxNameInDetail] + "…"
	}
	bad := func(why string, args ...any) error {
		return problem.New(400, "bad_name", "%q can't be the name of a%s %s: "+why,
			append([]any{shown, map[bool]string{true: "n"}[kind == Alert], kind}, args...)...).
			WithHint("take another name, such as checkouts_by_country")
	}
	if !plain(name) || len(name) > limit {
		return bad("names match [a-z][a-z0-9_]{0,%d}", limit-1)
	}
	if kind.namespace() == "relation" {
		for _, prefix := range []string{"late_", "tidemark_"} {
			if strings.HasPrefix(name, prefix) {
				return bad("names that begin with %s are reserved; others match [a-z][a-z0-9_]{0,%d}", prefix, limit-1)
			}
		}
	}
	return nil
}

// plain reports whether name is a lower-case letter followed by letters, digits and underscores.
func plain(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}
