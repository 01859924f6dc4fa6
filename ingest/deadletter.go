package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/group"
)

// DeadLetter is an input that could not be used, as users see it.
type DeadLetter struct {
	ID     string `json:"id"`
	Origin string `json:"origin"`
	Group  string `json:"group,omitempty"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Raw is the input as text; where that is no UTF-8, RawBase64 is exact.
	Raw       string        `json:"raw"`
	RawBase64 string        `json:"raw_base64,omitempty"`
	Place     *stream.Place `json:"place,omitempty"`
	FirstSeen string        `json:"first_seen"`
	Attempts  int           `json:"attempts"`
}

// DeadLetters is a page of them, oldest first.
type DeadLetters struct {
	Items []DeadLetter `json:"items"`
	Next  *string      `json:"next"`
}

// maxPage bounds a page of dead letters.
const maxPage = 1000

// stream finds a stream that must exist.
func (in *Ingester) stream(name string) (*stream.Stream, error) {
	if err := catalog.CheckName(catalog.Stream, name); err != nil {
		return nil, err
	}
	return in.streams.Get(name)
}

// Which says which dead letters of a stream are listed.
type Which struct {
	// Origin is "ingest" or "group"; "" is both: those of ingest first, then those of groups.
	Origin string
	// Group is a group whose own are listed; "" is all.
	Group string
	// Limit is 1 to 1,000; 0 is 100.
	Limit int
	// Cursor is "" or the last page's Next.
	Cursor string
}

// DeadLetters lists a stream's dead letters, a page at a time.
func (in *Ingester) DeadLetters(name string, w Which) (*DeadLetters, error) {
	s, err := in.stream(name)
	if err != nil {
		return nil, err
	}
	limit := w.Limit
	if limit == 0 {
		limit = 100
	}
	if limit < 1 || limit > maxPage {
		return nil, problem.New(400, "bad_limit", "limit is %d", limit).WithHint("it can be 1 to %d", maxPage)
	}
	if w.Origin != "" && w.Origin != "ingest" && w.Origin != "group" || w.Group != "" && w.Origin == "ingest" {
		return nil, problem.New(400, "bad_origin", "origin is %.40q", w.Origin).WithHint("it can be ingest or group; leave it out for both, or with a group")
	}
	var after uint64
	var behind group.Letter
	ofGroups := w.Origin == "group" || w.Group != ""
	if w.Cursor != "" {
		var ok bool
		if after, ok = readCursor(w.Cursor, s.ID); !ok {
			if behind, ok = readGroupCursor(w.Cursor, s.ID); !ok {
				return nil, problem.New(400, "bad_cursor", "the cursor is not one of this list").WithHint("take it from the member next of the page before, or leave it out")
			}
			ofGroups = true
		}
	}
	var letters []stream.DeadLetter
	if !ofGroups {
		if letters, err = in.log.DeadLetters(s.ID, after, limit+1); err != nil {
			return nil, err
		}
	}
	if w.Origin != "ingest" && in.opts.Groups != nil && len(letters) <= limit {
		more, err := in.opts.Groups.DeadLetters(s.ID, w.Group, behind, limit+1-len(letters))
		if err != nil {
			return nil, err
		}
		letters = append(letters, more...)
	}
	page := &DeadLetters{Items: []DeadLetter{}}
	for i, l := range letters {
		if i == limit {
			next := cursorBehind(letters[i-1], s.ID)
			page.Next = &next
			break
		}
		page.Items = append(page.Items, shown(l))
	}
	return page, nil
}

func shown(l stream.DeadLetter) DeadLetter {
	d := DeadLetter{
		ID: strconv.FormatUint(l.Number, 10), Origin: l.Origin, Group: l.Group, Code: l.Code, Reason: l.Reason, Place: l.Place,
		FirstSeen: string(row.FormatTimestamp(nil, l.FirstSeen)), Attempts: l.Attempts, Raw: string(l.Raw),
	}
	if l.Origin == "group" && l.Place != nil && l.Number == 0 {
		d.ID = group.Letter{Group: l.Group, Place: *l.Place}.String()
	}
	if !utf8.Valid(l.Raw) {
		d.Raw = strings.ToValidUTF8(d.Raw, "�")
		d.RawBase64 = base64.StdEncoding.EncodeToString(l.Raw)
	}
	return d
}

// The bytes of a cursor: "dl", the stream, the number behind which the page begins; or "dg", the
// stream, the id of a group's letter.
func cursorBehind(l stream.DeadLetter, id stream.ID) string {
	if l.Number == 0 {
		b := binary.BigEndian.AppendUint64([]byte("dg"), uint64(id))
		return base64.RawURLEncoding.EncodeToString(append(b, group.Letter{Group: l.Group, Place: *l.Place}.String()...))
	}
	b := binary.BigEndian.AppendUint64([]byte("dl"), uint64(id))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, l.Number))
}

func readGroupCursor(text string, id stream.ID) (group.Letter, bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 10 || string(b[:2]) != "dg" || binary.BigEndian.Uint64(b[2:]) != uint64(id) {
		return group.Letter{}, false
	}
	return group.ParseLetter(string(b[10:]))
}

func readCursor(text string, id stream.ID) (after uint64, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 18 || string(b[:2]) != "dl" || binary.BigEndian.Uint64(b[2:]) != uint64(id) {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[10:]), true
}

// deadLetter finds one by its id.
func (in *Ingester) deadLetter(s *stream.Stream, id string) (stream.DeadLetter, error) {
	unknown := problem.New(404, "unknown_dead_letter", "stream %s has no dead letter %.40q", s.Name, id).
		WithHint("GET /v1/streams/%s/dead_letters lists them; it may have been replayed or deleted", s.Name)
	number, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return stream.DeadLetter{}, unknown
	}
	var after uint64
	if number > 0 {
		after = number - 1
	}
	letters, err := in.log.DeadLetters(s.ID, after, 1)
	if err != nil {
		return stream.DeadLetter{}, err
	}
	if len(letters) == 0 || letters[0].Number != number {
		return stream.DeadLetter{}, unknown
	}
	return letters[0], nil
}

// DropDeadLetter removes a dead letter for good.
func (in *Ingester) DropDeadLetter(ctx context.Context, name, id string) error {
	s, err := in.stream(name)
	if err != nil {
		return err
	}
	if which, ok := group.ParseLetter(id); ok && in.opts.Groups != nil {
		return in.opts.Groups.DropDeadLetter(s.ID, which)
	}
	l, err := in.deadLetter(s, id)
	if err != nil {
		return err
	}
	return in.log.DropDeadLetter(ctx, s.ID, l.Number)
}

// Replayed says what became of a dead letter that was replayed.
type Replayed struct {
	// Answer is that of an event that was appended; nil for one of a group.
	Answer *Answer
	// Group gets the event, which lies at Place in the log, by the next poll of whoever holds the
	// partition.
	Group string
	Place stream.Place
}

// JSON is the body of the answer.
func (r *Replayed) JSON() []byte {
	if r.Answer != nil {
		return r.Answer.JSON()
	}
	out, err := json.Marshal(map[string]any{"group": r.Group, "place": r.Place, "delivery": "the next poll of the member that holds the partition"})
	if err != nil {
		panic(err) // plain values only
	}
	return out
}

// Replay tries a dead letter again, with the corrected event in its place when one is given. One of
// ingest is appended, and is a dead letter no more; if it still can't be used, that is a problem 422,
// one more failed attempt, and nothing else. A replay that a crash cut in two is finished by the next
// one: the event is appended once. One of a group is given to that group alone, and nothing is
// appended.
func (in *Ingester) Replay(ctx context.Context, name, id string, corrected []byte) (*Replayed, error) {
	s, err := in.stream(name)
	if err != nil {
		return nil, err
	}
	if len(corrected) > in.opts.MaxEvent {
		return nil, problem.New(413, codeTooLarge, "the event has %d bytes, at most %d are taken", len(corrected), in.opts.MaxEvent).WithHint("send a smaller one")
	}
	if which, ok := group.ParseLetter(id); ok && in.opts.Groups != nil {
		if len(corrected) > 0 && !isEvent(corrected, in.opts.MaxDepth) {
			return nil, problem.New(422, "bad_event", "the corrected event is no JSON object").WithHint(`send an object, such as {"user":"u1"}, or no body at all`)
		}
		if err := in.opts.Groups.Replay(s.ID, which, bytes.TrimSpace(corrected)); err != nil {
			return nil, err
		}
		return &Replayed{Group: which.Group, Place: which.Place}, nil
	}
	l, err := in.deadLetter(s, id)
	if err != nil {
		return nil, err
	}
	event := l.Raw
	if len(corrected) > 0 {
		event = corrected
	}
	r := Request{Stream: name, Body: event, Strict: true, IdempotencyKey: "replay " + id, Scope: "tidemark: dead letters"}
	was, done, err := in.log.Remembered(kept(r, s.ID))
	if err != nil {
		return nil, err
	}
	a := &Answer{Status: 200, kept: was.Body}
	if !done {
		if a, err = in.Post(ctx, r); err != nil {
			if status := problem.From(err).Status; status == 400 || status == 413 || status == 422 {
				err = cmp.Or(in.log.FailDeadLetter(ctx, s.ID, l.Number), err)
			}
			return nil, err
		}
	}
	return &Replayed{Answer: a}, in.log.DropDeadLetter(ctx, s.ID, l.Number)
}
