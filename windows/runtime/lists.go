package runtime

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// lateRecord is a record of late_<view> as it is stored: JSON.
type lateRecord struct {
	Stream    string           `json:"stream"`
	Partition stream.Partition `json:"partition"`
	Offset    stream.Offset    `json:"offset"`
	Sequence  stream.Sequence  `json:"sequence"`
	Time      windows.Micros   `json:"time"`
	Watermark windows.Micros   `json:"watermark"`
	Outcome   string           `json:"outcome"`
	Refused   []refusal        `json:"refused,omitempty"`
	Event     json.RawMessage  `json:"event"`
}

type refusal struct {
	Function int            `json:"function"`
	Start    windows.Micros `json:"start"`
	End      windows.Micros `json:"end"`
}

// LateEvent is one record of the stream late_<view> (L5).
type LateEvent struct {
	// Number is the record's offset in late_<view>.
	Number    int64            `json:"offset"`
	Stream    string           `json:"stream"`
	Partition stream.Partition `json:"event_partition"`
	Offset    stream.Offset    `json:"event_offset"`
	Time      *string          `json:"time"`
	// Watermark is the one that the event met.
	Watermark *string         `json:"watermark"`
	Outcome   string          `json:"outcome"`
	Windows   []RefusedWindow `json:"windows"`
	Event     json.RawMessage `json:"event"`
}

// RefusedWindow is a window that refused the event. Function is the number of the window function
// in the order of the text, from 0.
type RefusedWindow struct {
	Function int     `json:"function"`
	Start    *string `json:"window_start"`
	End      *string `json:"window_end"`
}

// LatePage is a run of late events.
type LatePage struct {
	Events []LateEvent `json:"events"`
	First  int64       `json:"first_offset"`
	Next   int64       `json:"next_offset"` // where the next page begins
	End    int64       `json:"end_offset"`
}

// LateEvents reads late_<view> from an offset on. One below the first is a problem 410 with
// first_offset, as of any stream.
func (s *Service) LateEvents(name string, offset int64, limit int) (*LatePage, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = DefaultRows
	}
	snap, h, p, err := v.open()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	page := &LatePage{Events: []LateEvent{}, First: h.LateFirst + p.LateGone, End: h.LateFirst + p.Late, Next: offset}
	if offset < page.First {
		return nil, problem.New(410, "offset_gone", "late_%s begins at offset %d now; %d is gone", name, page.First, offset).
			WithHint("read on from first_offset").With("first_offset", page.First)
	}
	it := snap.Iter(lateKey(v.id, h.Version, offset-h.LateFirst), kv.PrefixEnd(versionKey(kv.Late, v.id, h.Version)))
	for ok := it.First(); ok && err == nil && len(page.Events) < limit; ok = it.Next() {
		var r lateRecord
		err = json.Unmarshal(it.Value(), &r)
		k := it.Key()
		e := LateEvent{
			Number: h.LateFirst + int64(binary.BigEndian.Uint64(k[len(k)-8:])), Stream: r.Stream, Partition: r.Partition, Offset: r.Offset,
			Time: instant(r.Time), Watermark: instant(r.Watermark), Outcome: r.Outcome, Event: r.Event, Windows: []RefusedWindow{},
		}
		for _, x := range r.Refused {
			e.Windows = append(e.Windows, RefusedWindow{x.Function, instant(x.Start), instant(x.End)})
		}
		page.Events = append(page.Events, e)
		page.Next = e.Number + 1
	}
	return page, errors.Join(err, it.Close())
}

// open makes a snapshot of the store at the view's last committed epoch.
func (v *view) open() (*kv.Snapshot, head, progress, error) {
	v.gate.RLock()
	snap := v.svc.kv.Snapshot()
	v.gate.RUnlock()
	h, p, err := v.standing(snap)
	if err != nil {
		return nil, head{}, progress{}, errors.Join(err, snap.Close())
	}
	return snap, h, p, nil
}

// rowError is an entry of the list of row errors as it is stored: JSON.
type rowError struct {
	Stream    string           `json:"stream"`
	Partition stream.Partition `json:"partition"`
	Offset    stream.Offset    `json:"offset"`
	Sequence  stream.Sequence  `json:"sequence"`
	Code      string           `json:"code"`
	Message   string           `json:"message"`
}

// errorKey lists row errors by stream, partition and offset.
func errorKey(id uint64, version uint32, of stream.ID, at stream.Place) []byte {
	k := binary.BigEndian.AppendUint64(errorsKey(id, version), uint64(of))
	k = binary.BigEndian.AppendUint32(k, uint32(at.Partition))
	return binary.BigEndian.AppendUint64(k, uint64(at.Offset))
}

// RowErrorInfo is a row that a view left out because an expression failed for it (E1).
type RowErrorInfo struct {
	Stream      string           `json:"stream"`
	Partition   stream.Partition `json:"partition"`
	Offset      stream.Offset    `json:"offset"`
	ViewVersion int              `json:"view_version"`
	Code        string           `json:"code"`
	Message     string           `json:"message"`
}

// ErrorPage is a run of row errors.
type ErrorPage struct {
	Items []RowErrorInfo `json:"items"`
	Next  *string        `json:"next"`
}

// Errors lists a view's row errors, from a cursor on.
func (s *Service) Errors(name, cursor string, limit int) (*ErrorPage, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = DefaultRows
	}
	snap, h, _, err := v.open()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	prefix := errorsKey(v.id, h.Version)
	from := prefix
	if cursor != "" {
		rest, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			return nil, problem.New(400, "bad_cursor", "the cursor is not one of this list").WithHint("begin without a cursor")
		}
		from = append(append([]byte{}, prefix...), rest...)
	}
	page := &ErrorPage{Items: []RowErrorInfo{}}
	it := snap.Iter(from, kv.PrefixEnd(prefix))
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if len(page.Items) == limit {
			next := base64.RawURLEncoding.EncodeToString(it.Key()[len(prefix):])
			page.Next = &next
			break
		}
		var e rowError
		err = json.Unmarshal(it.Value(), &e)
		page.Items = append(page.Items, RowErrorInfo{e.Stream, e.Partition, e.Offset, int(h.ViewVersion), e.Code, e.Message})
	}
	return page, errors.Join(err, it.Close())
}

// Fields returns the columns of a view or alert.
func (s *Service) Fields(name string) ([]row.Field, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	h, _ := v.published()
	return loadFields(h.Fields)
}

// Standing returns how far a view is: its last position that is durable and what it is as of.
func (s *Service) Standing(name string) (stream.Position, AsOf, error) {
	v, err := s.find(name)
	if err != nil {
		return stream.Position{}, AsOf{}, err
	}
	_, p := v.published()
	return v.outside(p.Position), p.AsOf, nil
}

// Place returns the internal number of a view of one kind and its last position that is durable.
func (s *Service) Place(kind catalog.Kind, name string) (uint64, stream.Position, error) {
	v, err := s.findKind(kind, name)
	if err != nil {
		return 0, stream.Position{}, err
	}
	_, p := v.published()
	return v.id, v.outside(p.Position), nil
}
