package auth

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// A link is a read-only address of one dashboard: tdl_, 64 bits of id, _, 128 bits of secret, both in
// hexadecimal. As of keys, only the secret's SHA-256 is kept, so the address is shown once. Whoever
// has it reads what the dashboard's panels show, narrowed by the link's filters and, when it is
// frozen, to one range of time: the server adds these conditions to whatever is asked.

const linkPrefix = "tdl_"

// Bounds of links.
const (
	defaultLinkLife = 30 * 24 * time.Hour
	maxLinkLife     = 366 * 24 * time.Hour
	maxLinks        = 1000
	maxFilters      = 20
	maxLinkRange    = 100
)

// Frozen is the range of a link that stands still: the dashboard's own, as it is when the link is
// made.
const Frozen = "frozen"

// LinkDefinition is the body of POST /v1/dashboards/{name}/links.
type LinkDefinition struct {
	// Expires is how long the link lives, such as "72h"; empty means 30 days.
	Expires string `json:"expires"`
	// Range is "frozen", a moving range such as "now-6h", two instants with a comma, or empty: the
	// dashboard's own.
	Range string `json:"range"`
	// Filters hold columns to values, for every panel that has the column.
	Filters map[string]json.RawMessage `json:"filters"`
	// Origins are the pages that may show the dashboard in a frame.
	Origins []string `json:"origins"`
}

// Link is a link as clients see it.
type Link struct {
	ID        string `json:"id"`
	Dashboard string `json:"dashboard"`
	// URL is the address: only in the answer that makes the link.
	URL   string `json:"url,omitempty"`
	Range string `json:"range"`
	// Frozen: the range is two instants, and nothing outside it is shown.
	Frozen  bool                       `json:"frozen"`
	Filters map[string]json.RawMessage `json:"filters"`
	Origins []string                   `json:"origins"`
	Expires time.Time                  `json:"expires"`
	Created time.Time                  `json:"created"`
	// By is the name of the key that made it.
	By string `json:"by,omitempty"`

	digest digest
	// board is the dashboard's number: a dashboard that is made anew has other links.
	board uint64
	salt  []byte
	store Store
	// ended is closed when what the link has open must end.
	ended chan struct{}
	timer *time.Timer
}

// kept is a link in the store.
type kept struct {
	Link   `json:"link"`
	Digest []byte `json:"sha256"`
	Board  uint64 `json:"board"`
	// Salt makes what stands for hidden columns.
	Salt []byte `json:"salt"`
}

// links are all of them.
type links struct {
	store Store
	mu    sync.Mutex
	byID  map[string]*Link
}

func (s *links) open(store Store, now time.Time) error {
	s.store, s.byID = store, map[string]*Link{}
	for _, e := range store.List(catalog.Link) {
		var k kept
		if err := json.Unmarshal(e.Doc, &k); err != nil {
			return fmt.Errorf("open links: %w", err)
		}
		if !now.Before(k.Expires) {
			if _, err := store.Delete(catalog.Link, e.Name); err != nil {
				return err
			}
			continue
		}
		l := k.Link
		l.board, l.salt = k.Board, k.Salt
		copy(l.digest[:], k.Digest)
		if len(l.salt) == 0 { // an older program made it: then what stands for hidden columns lasts as long as the process
			l.salt = newSalt()
		}
		s.add(&l, now)
	}
	return nil
}

func newSalt() []byte {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt)
	return salt
}

// add takes a link in; it ends by itself when its time is over.
func (s *links) add(l *Link, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.store, l.ended = s.store, make(chan struct{})
	l.timer = time.AfterFunc(l.Expires.Sub(now), func() { _ = s.remove(l.ID) })
	s.byID[l.ID] = l
}

func (s *links) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byID {
		l.timer.Stop()
	}
}

// remove ends a link and all that it has open.
func (s *links) remove(id string) error {
	s.mu.Lock()
	l := s.byID[id]
	delete(s.byID, id)
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.timer.Stop()
	close(l.ended)
	_, err := s.store.Delete(catalog.Link, "l"+id)
	return err
}

// find returns the link of a text, or nil; unknown ids and wrong secrets cost the same (I2). What it
// returns is never changed.
func (s *links) find(text string, now time.Time) *Link {
	rest, _ := strings.CutPrefix(text, linkPrefix)
	id, secret, ok := strings.Cut(rest, "_")
	if !ok || len(id) != idLen || len(secret) != secretLen {
		return nil
	}
	s.mu.Lock()
	one := s.byID[id]
	var l Link
	d := &noDigest
	if one != nil {
		l, d = *one, &one.digest
	}
	s.mu.Unlock()
	if !d.proves(secret) || !now.Before(l.Expires) {
		return nil
	}
	if _, there := l.doc(); !there {
		return nil
	}
	return &l
}

// revoke ends what the links of a dashboard have open.
func (s *links) revoke(dashboard string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byID {
		if l.Dashboard == dashboard {
			close(l.ended)
			l.ended = make(chan struct{})
		}
	}
}

func deadLink() error {
	return problem.New(401, "bad_link", "the link is not valid").WithHint("it may have expired or been taken back: ask whoever sent it for another one")
}

// FindLink returns the link of a text, when it is valid.
func (k *Keys) FindLink(text string) (*Link, bool) {
	l := k.links.find(text, k.opts.Now())
	return l, l != nil
}

// MakeLink makes a link to a dashboard. by names who does.
func (k *Keys) MakeLink(dashboard string, d LinkDefinition, by string) (Link, error) {
	now := k.opts.Now().UTC()
	e, ok := k.store.Get(catalog.Dashboard, dashboard)
	if !ok {
		return Link{}, problem.New(404, "unknown_dashboard", "there is no dashboard %s", dashboard).WithHint("GET /v1/dashboards lists those that there are")
	}
	var doc board
	if err := json.Unmarshal(e.Doc, &doc); err != nil {
		return Link{}, err
	}
	l := Link{Dashboard: dashboard, Range: cmp.Or(d.Range, doc.Range, "now-1h"), Filters: d.Filters, Origins: orNone(sorted(d.Origins)), Created: now, By: by}
	if l.Filters == nil {
		l.Filters = map[string]json.RawMessage{}
	}
	if err := l.settle(d, doc.Range, now); err != nil {
		return Link{}, err
	}
	k.links.mu.Lock()
	full := len(k.links.byID) >= maxLinks
	k.links.mu.Unlock()
	if full {
		return Link{}, problem.New(409, "too_many_links", "there are %d links already", maxLinks).WithHint("take some back with DELETE /v1/dashboards/{name}/links/{id}")
	}
	var random [(idLen + secretLen) / 2]byte
	_, _ = rand.Read(random[:])
	l.ID = hex.EncodeToString(random[:idLen/2])
	secret := hex.EncodeToString(random[idLen/2:])
	l.board, l.digest = e.ID, sha256.Sum256([]byte(secret))
	l.salt = newSalt()
	stored, err := json.Marshal(kept{l, l.digest[:], l.board, l.salt})
	if err != nil {
		return Link{}, err
	}
	if _, err := k.store.Put(catalog.Link, "l"+l.ID, stored, 0); err != nil {
		return Link{}, err
	}
	made := l
	k.links.add(&made, now)
	l.URL = "/shared/" + linkPrefix + l.ID + "_" + secret
	k.opts.Logger.Info("link made", "dashboard", dashboard, "link", l.ID, "expires", l.Expires)
	return l, nil
}

// settle checks a definition and fixes what time decides.
func (l *Link) settle(d LinkDefinition, own string, now time.Time) error {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	life := defaultLinkLife
	if d.Expires != "" {
		span, err := stream.ParseDuration(d.Expires)
		life = time.Duration(span)
		if err != nil || life < time.Minute || life > maxLinkLife {
			say("expires is %.40q; it can be 1m to 366d", d.Expires)
		}
	}
	l.Expires = now.Add(life).Truncate(time.Second)
	if l.Range == Frozen {
		l.Range = cmp.Or(own, "now-1h")
		l.Frozen = true
	}
	from, to, err := Span(l.Range, now)
	switch {
	case err != nil || len(l.Range) > maxLinkRange:
		say("range is %.100q; it can be frozen, now-6h, or two instants with a comma", d.Range)
	case l.Frozen || !strings.Contains(l.Range, "now"):
		l.Frozen = true
		l.Range = from.Format(time.RFC3339) + "," + to.Format(time.RFC3339)
	}
	if len(l.Filters) > maxFilters {
		say("there are %d filters; at most %d are taken", len(l.Filters), maxFilters)
	}
	for name, v := range l.Filters {
		if v = bytes.TrimSpace(v); len(v) == 0 || v[0] == '{' || v[0] == '[' || len(v) > 1000 || len(name) > 200 {
			say("the filter %.80q is no plain value", name)
		}
	}
	for _, o := range l.Origins {
		if !validOrigin(o) {
			say("%.80q is no origin: it is a scheme and a host, such as https://shop.example, in lower case and without a path", o)
		}
	}
	if len(l.Origins) > maxOrigins {
		say("there are %d origins; at most %d are taken", len(l.Origins), maxOrigins)
	}
	if len(wrong) == 0 {
		return nil
	}
	return problem.New(422, "bad_link", "%s", strings.Join(wrong, "; ")).
		WithHint(`send {"expires":"72h","range":"frozen","filters":{"country":"DE"},"origins":["https://intranet.example"]}`)
}

// Span is what a range of time stands for at an instant: now-6h, or from,to, of which each may be
// relative.
func Span(text string, now time.Time) (from, to time.Time, err error) {
	first, second, two := strings.Cut(text, ",")
	if from, err = instant(first, now); err != nil || !two {
		return from, now, err
	}
	to, err = instant(second, now)
	if err == nil && !from.Before(to) {
		err = fmt.Errorf("%s does not lie before %s", first, second)
	}
	return from, to, err
}

func instant(text string, now time.Time) (time.Time, error) {
	rest, relative := strings.CutPrefix(text, "now")
	if !relative {
		at, err := time.Parse(time.RFC3339Nano, text)
		return at.UTC(), err
	}
	if rest == "" {
		return now, nil
	}
	span, ok := strings.CutPrefix(rest, "-")
	if !ok {
		return now, fmt.Errorf("%s is no instant", text)
	}
	back, err := stream.ParseDuration(span)
	return now.Add(-time.Duration(back)), err
}

// Links lists the links of a dashboard, the newest first.
func (k *Keys) Links(dashboard string) []Link {
	k.links.mu.Lock()
	defer k.links.mu.Unlock()
	out := []Link{}
	for _, l := range k.links.byID {
		if l.Dashboard == dashboard {
			out = append(out, *l)
		}
	}
	slices.SortFunc(out, func(a, b Link) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	return out
}

// DashboardChanged ends what the links of a dashboard have open: a panel that is no longer on it is not
// shown any more. Those who may go on come again.
func (k *Keys) DashboardChanged(dashboard string) { k.links.revoke(dashboard) }

// DeleteLink takes a link back; it reports whether the dashboard had it.
func (k *Keys) DeleteLink(dashboard, id string) (bool, error) {
	k.links.mu.Lock()
	l := k.links.byID[id]
	k.links.mu.Unlock()
	if l == nil || l.Dashboard != dashboard {
		return false, nil
	}
	k.opts.Logger.Info("link taken back", "dashboard", dashboard, "link", id)
	return true, k.links.remove(id)
}

// board is what a link reads of its dashboard.
type board struct {
	Range  string  `json:"range"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Type    string   `json:"type"`
	View    string   `json:"view"`
	X       string   `json:"x"`
	Y       []string `json:"y"`
	Series  string   `json:"series"`
	Where   string   `json:"where"`
	Order   string   `json:"order"`
	Range   string   `json:"range"`
	Compare string   `json:"compare"`
}

// doc is the link's dashboard as it is now; false when it is gone.
func (l *Link) doc() (doc board, ok bool) {
	e, ok := l.store.Get(catalog.Dashboard, l.Dashboard)
	if !ok || e.ID != l.board || json.Unmarshal(e.Doc, &doc) != nil {
		return board{}, false
	}
	return doc, true
}

func (l *Link) principal() *Principal {
	return &Principal{KeyID: "link " + l.ID, Name: "link " + l.ID, link: l, revoked: l.ended}
}

// covers reports whether one of the panels shows a relation. What can't be narrowed, events and
// alerts as they come, is not in a link that is frozen or has filters.
func (l *Link) covers(relation string) bool {
	doc, _ := l.doc()
	shown := slices.ContainsFunc(doc.Panels, func(p panel) bool { return p.View == relation && p.Type != "text" })
	if !shown || !l.Frozen && len(l.Filters) == 0 {
		return shown
	}
	e, ok := l.store.Lookup(relation)
	return ok && e.Kind == catalog.View
}

// Shows reports whether a span of time touches the range of a frozen link; others show all.
func (l *Link) Shows(from, to time.Time) bool {
	if !l.Frozen {
		return true
	}
	first, end, err := Span(l.Range, l.Created)
	return err == nil && !to.Before(first) && from.Before(end)
}

// Column is a column of a view, as conditions must know it.
type Column struct {
	Name, Type string
	// Measure: filters are not about it.
	Measure bool
}

// Where is the condition that holds for every row of a view that the link shows; empty: all.
func (l *Link) Where(view string, columns []Column) string {
	doc, _ := l.doc()
	var any []string
	open := false
	for _, p := range doc.Panels {
		if p.View != view || p.Type == "text" {
			continue
		}
		var all []string
		if strings.TrimSpace(p.Where) != "" {
			all = append(all, "(\n"+p.Where+"\n)")
		}
		all = append(all, l.frozen(p, columns)...)
		one := strings.Join(all, " AND ")
		if open = open || one == ""; !slices.Contains(any, one) {
			any = append(any, one)
		}
	}
	var all []string
	switch {
	case len(any) == 0:
		return "FALSE" // no panel shows it
	case !open:
		all = append(all, "("+strings.Join(any, " OR ")+")")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Filters)) {
		i := slices.IndexFunc(columns, func(c Column) bool { return strings.EqualFold(c.Name, name) && !c.Measure })
		if i >= 0 {
			all = append(all, equals(columns[i], bytes.TrimSpace(l.Filters[name])))
		}
	}
	return strings.Join(all, " AND ")
}

// frozen are the conditions that hold a panel to the range of a frozen link.
func (l *Link) frozen(p panel, columns []Column) []string {
	i := slices.IndexFunc(columns, func(c Column) bool { return strings.EqualFold(c.Name, p.X) && c.Type == "TIMESTAMP" })
	if !l.Frozen || i < 0 {
		return nil
	}
	span := l.Range
	if p.Range != "" {
		span = p.Range // as it was when the link was made
	}
	from, to, err := Span(span, l.Created)
	if err != nil {
		return []string{"FALSE"}
	}
	if p.Compare == "previous" {
		from = from.Add(from.Sub(to))
	}
	x := quote(columns[i].Name)
	return []string{x + " >= " + timestamp(from), x + " < " + timestamp(to)}
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func timestamp(at time.Time) string {
	return "TIMESTAMP '" + at.UTC().Format("2006-01-02 15:04:05.000000") + "'"
}

// equals is the condition that a column has a value, which is plain JSON.
func equals(c Column, v []byte) string {
	name := quote(c.Name)
	if bytes.Equal(v, []byte("null")) {
		return name + " IS NULL"
	}
	var text string
	if json.Unmarshal(v, &text) != nil { // a number or a truth value
		return name + " = " + string(v)
	}
	literal := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if c.Type == "TIMESTAMP" || c.Type == "DATE" {
		if micros, err := row.ParseTime([]byte(text)); err == nil {
			literal = "'" + time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05.000000") + "'"
		}
		return name + " = CAST(" + literal + " AS " + c.Type + ")"
	}
	return name + " = " + literal
}
