package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"tidemark/storage/problem"
)

// Scope is one thing that a key may do.
type Scope string

// The scopes. Admin holds all of them; Beacon stands alone, because its key is public.
const (
	Ingest Scope = "ingest" // post events
	Beacon Scope = "beacon" // post events from web pages, with the key in the address
	Read   Scope = "read"   // read streams, views and dashboards, query
	Alerts Scope = "alerts" // read and acknowledge alerts
	Admin  Scope = "admin"  // everything, keys included
)

var scopes = []Scope{Ingest, Beacon, Read, Alerts, Admin}

// Bounds of a definition.
const (
	maxPatterns = 100
	maxOrigins  = 100
	maxRate     = 1e6
	maxPattern  = 63
)

// Definition is the body of PUT /v1/keys/{name}. A member that is not named stays as it is.
type Definition struct {
	Scopes *[]Scope `json:"scopes"`
	// Streams are patterns of the names that the key is for, * standing for any letters. None: all.
	Streams *[]string `json:"streams"`
	// Origins are the web pages that may use the key, such as https://shop.example.
	Origins *[]string `json:"origins"`
	// Rate is the most requests a second. 0: no limit.
	Rate *float64 `json:"rate"`
	// Rotate replaces the key's text; the old one is void at once.
	Rotate bool `json:"rotate"`
}

// ParseDefinition reads the body of a PUT. An empty body changes nothing.
func ParseDefinition(body []byte) (Definition, error) {
	var d Definition
	if len(bytes.TrimSpace(body)) == 0 {
		return d, nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(&d)
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return d, nil
		}
		err = errors.New("something follows the JSON object")
	}
	return d, problem.New(400, "bad_body", "the body can't be read: %s", strings.TrimPrefix(err.Error(), "json: ")).
		WithHint(`send {"scopes":["ingest"],"streams":["sales_*"],"origins":[],"rate":100}`)
}

// rights is what a key may do. It is never changed once it is made.
type rights struct {
	Scopes  []Scope  `json:"scopes"`
	Streams []string `json:"streams"`
	Origins []string `json:"origins"`
	Rate    float64  `json:"rate"`
}

// with returns the rights that a definition makes of these.
func (r rights) with(d Definition) rights {
	if d.Scopes != nil {
		r.Scopes = sorted(*d.Scopes)
	}
	if d.Streams != nil {
		r.Streams = sorted(*d.Streams)
	}
	if d.Origins != nil {
		r.Origins = sorted(*d.Origins)
	}
	if d.Rate != nil {
		r.Rate = *d.Rate
	}
	if slices.Contains(r.Streams, "*") {
		r.Streams = nil
	}
	return r
}

func sorted[T ~string](list []T) []T {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// same reports whether two rights allow the same; their rates may differ.
func (r rights) same(o rights) bool {
	return slices.Equal(r.Scopes, o.Scopes) && slices.Equal(r.Streams, o.Streams) && slices.Equal(r.Origins, o.Origins)
}

func (r rights) has(s Scope) bool {
	return slices.Contains(r.Scopes, s) || s != Beacon && slices.Contains(r.Scopes, Admin)
}

// check names all mistakes at once.
func (r rights) check() error {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(r.Scopes) == 0 {
		say("scopes is empty")
	}
	for _, s := range r.Scopes {
		if !slices.Contains(scopes, s) {
			say("there is no scope %.40q", s)
		}
	}
	r.checkNames(say)
	beacon := slices.Contains(r.Scopes, Beacon)
	switch {
	case beacon && len(r.Scopes) > 1:
		say("a beacon key is public, so it has no other scope")
	case beacon && len(r.Origins) == 0:
		say("a beacon key needs origins: the pages that may use it")
	case beacon && r.Rate == 0:
		say("a beacon key needs a rate: the most requests a second")
	}
	// Whoever can define views could read every stream through one.
	if slices.Contains(r.Scopes, Admin) && len(r.Streams) > 0 {
		say("an admin key is for all streams: leave streams out")
	}
	if !(r.Rate >= 0 && r.Rate <= maxRate) {
		say("rate is %v; it can be 0 (no limit) to %d requests a second", r.Rate, int64(maxRate))
	}
	if len(wrong) == 0 {
		return nil
	}
	return problem.New(422, "bad_key", "%s", strings.Join(wrong, "; ")).
		WithHint("scopes are ingest, beacon, read, alerts and admin; streams are patterns such as sales_*; origins are such as https://shop.example")
}

func (r rights) checkNames(say func(format string, args ...any)) {
	if len(r.Streams) > maxPatterns || len(r.Origins) > maxOrigins {
		say("there are %d patterns and %d origins; at most %d of each are taken", len(r.Streams), len(r.Origins), maxPatterns)
		return
	}
	for _, s := range r.Streams {
		if s == "" || len(s) > maxPattern || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_*") != "" || strings.ContainsFunc(s, notOfPattern) {
			say("%.80q is no pattern of names: it holds a-z, 0-9, _ and *", s)
		}
	}
	for _, o := range r.Origins {
		if !validOrigin(o) {
			say("%.80q is no origin: it is a scheme and a host, such as https://shop.example, in lower case and without a path", o)
		}
	}
}

func notOfPattern(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '*'
}

// validOrigin reports whether text is an origin as browsers send it. "null" and "*" are none: the
// first is what every sandboxed page sends, the second would open the key to every page.
func validOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.Scheme+"://"+u.Host == text &&
		text == strings.ToLower(text) && !strings.ContainsAny(u.Host, "*, ")
}

// covers reports whether one of the patterns is for a name.
func (r rights) covers(name string) bool {
	return len(r.Streams) == 0 || slices.ContainsFunc(r.Streams, func(p string) bool { return matches(p, name) })
}

// matches compares a name with a pattern in which * stands for any letters, also none. It goes back
// to the last star only, so its time is at most the product of the two lengths.
func matches(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
