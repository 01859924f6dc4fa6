package alert

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/windows/runtime"
)

// epochEvents bounds the events of one epoch of an alert, so that a page of its log is small.
const epochEvents = 4_096

// Service keeps the alerts. It is safe for concurrent use.
type Service struct {
	views *runtime.Service
	kv    *kv.Store
	now   func() time.Time
}

// New attaches the alerts to the service that runs them. It comes before that service's Run.
func New(views *runtime.Service, store *kv.Store) *Service {
	s := &Service{views: views, kv: store, now: views.Now}
	views.Attach(catalog.Alert, runtime.Attachment{
		Evidence: true, EpochEvents: epochEvents, Open: s.open,
		Drop: func(b *kv.Batch, id uint64) {
			b.DeletePrefix(logPrefix(id))
			b.DeletePrefix(rulePrefix(id))
		},
	})
	return s
}

// Info is what there is to say of an alert: what there is of its view, and its words.
type Info struct {
	runtime.Info
	Words
	// LastSeq is the number of the newest alarm; 0: none yet. FirstSeq is that of the oldest one that
	// retention has left.
	LastSeq  uint64 `json:"last_seq"`
	FirstSeq uint64 `json:"first_seq"`
}

// Put makes an alert or gives it another definition, as a view's Put does.
func (s *Service) Put(ctx context.Context, name string, d Definition, dryRun bool) (info Info, created bool, err error) {
	if err := catalog.CheckName(catalog.Alert, name); err != nil {
		return Info{}, false, err
	}
	fields, err := s.views.Columns(d.Definition)
	if err != nil {
		return Info{}, false, err
	}
	words, err := d.resolve(name, fields)
	if err != nil {
		return Info{}, false, err
	}
	extra, err := json.Marshal(words)
	if err != nil {
		return Info{}, false, err
	}
	view, created, err := s.views.PutKind(ctx, catalog.Alert, name, d.Definition, extra, dryRun)
	if err != nil {
		return Info{}, false, err
	}
	info, err = s.info(view)
	return info, created, err
}

func (s *Service) info(view runtime.Info) (Info, error) {
	info := Info{Info: view}
	if err := json.Unmarshal(view.Extra, &info.Words); err != nil {
		return Info{}, err
	}
	var err error
	if view.ID != 0 {
		info.LastSeq, err = lastSeq(s.kv, view.ID)
	}
	if info.LastSeq > 0 && err == nil {
		var gone forgotten
		gone, err = readForgotten(s.kv, view.ID)
		info.FirstSeq = gone.Seq + 1
	}
	return info, err
}

// Get tells of an alert.
func (s *Service) Get(name string) (Info, error) {
	view, err := s.views.GetKind(catalog.Alert, name)
	if err != nil {
		return Info{}, err
	}
	return s.info(view)
}

// List tells of all alerts, by name.
func (s *Service) List() ([]Info, error) {
	views, err := s.views.ListKind(catalog.Alert)
	if err != nil {
		return nil, err
	}
	out := make([]Info, len(views))
	for i, v := range views {
		if out[i], err = s.info(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Delete removes an alert with its log and the acknowledgements of its groups.
func (s *Service) Delete(ctx context.Context, name string) error {
	return s.views.DeleteKind(ctx, catalog.Alert, name)
}

// Page is a run of an alert's log.
type Page struct {
	Items []Alarm `json:"items"`
	// Next is the After of the page behind this one; null when this one reaches the log's end.
	Next *string `json:"next"`
}

// Bounds of a page.
const (
	defaultAlarms = 1_000
	maxAlarms     = 10_000
)

// Log reads an alert's log behind a place: a number as in seq, a position, or empty for the
// beginning. It holds nothing that is not durable.
func (s *Service) Log(name, after string, limit int) (*Page, error) {
	if limit <= 0 {
		limit = defaultAlarms
	}
	limit = min(limit, maxAlarms)
	seq, at, err := s.place(name, after)
	if err != nil {
		return nil, err
	}
	alarms, more, err := s.read(name, seq, at, after == "", limit)
	if err != nil {
		return nil, err
	}
	page := &Page{Items: alarms}
	if more {
		next := strconv.FormatUint(alarms[len(alarms)-1].Seq, 10)
		page.Next = &next
	}
	return page, nil
}

// Owns reports whether a position was given by the alert that has a name now.
func (s *Service) Owns(name string, p stream.Position) bool {
	id, _, err := s.views.Place(catalog.Alert, name)
	return err == nil && p.Log == s.views.Log.ID().Of(id)
}

// place reads the after of a request.
func (s *Service) place(name, after string) (seq uint64, at *stream.Position, err error) {
	if after == "" {
		return 0, nil, nil
	}
	if seq, err := strconv.ParseUint(after, 10, 64); err == nil {
		return seq, nil, nil
	}
	p, err := stream.ParsePosition(after)
	if err != nil {
		return 0, nil, problem.New(400, "bad_position", "after is neither a seq nor a position").
			WithHint("send the seq or the position of the last alarm that you have")
	}
	id, _, err := s.views.Place(catalog.Alert, name)
	if err != nil {
		return 0, nil, err
	}
	if log := s.views.Log.ID(); p.Log != log.Of(id) && (p.Log != log || p.Within < 0) {
		return 0, nil, problem.New(410, "position_gone", "the position is of another log, or of an alert that was deleted: the data directory was restored, or lost events").
			WithHint("read the log from its beginning")
	}
	return 0, &p, nil
}

// After returns the alarms behind a position, all of the epochs they are of, about limit in
// number. The zero position is the beginning.
func (s *Service) After(name string, p stream.Position, limit int) ([]Alarm, error) {
	at := &p
	if p == (stream.Position{}) {
		at = nil
	}
	alarms, more, err := s.read(name, 0, at, at == nil, limit)
	for more && err == nil { // the rest of the last epoch
		var rest []Alarm
		rest, more, err = s.read(name, alarms[len(alarms)-1].Seq, nil, true, 64)
		for i, a := range rest {
			if a.Position != alarms[len(alarms)-1].Position {
				rest, more = rest[:i], false
				break
			}
		}
		alarms = append(alarms, rest...)
	}
	return alarms, err
}

// read returns the alarms behind a number, or behind a position when there is one, or whole: all that
// are there.
func (s *Service) read(name string, seq uint64, at *stream.Position, whole bool, limit int) (alarms []Alarm, more bool, err error) {
	id, durable, err := s.views.Place(catalog.Alert, name)
	if err != nil {
		return nil, false, err
	}
	gone, err := readForgotten(s.kv, id)
	switch {
	case err != nil:
		return nil, false, err
	case at != nil && gone.after(*at), at == nil && !whole && seq < gone.Seq:
		return nil, false, problem.New(410, "position_gone", "retention has removed alarms of %s behind this place: the oldest one has seq %d", name, gone.Seq+1).
			WithHint("read on from the oldest one: leave after out").With("first_seq", gone.Seq+1)
	case at != nil:
		if seq, err = s.seqAt(id, *at, gone.Seq); err != nil {
			return nil, false, err
		}
	}
	seq = max(seq, gone.Seq)
	alarms = []Alarm{}
	it := s.kv.Iter(logKey(id, seq+1), kv.PrefixEnd(logPrefix(id)))
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var a Alarm
		if err = json.Unmarshal(it.Value(), &a); err != nil {
			break
		}
		if p, perr := stream.ParsePosition(a.Position); perr != nil || p.Log == durable.Log && behind(durable, p) {
			err = perr
			break
		}
		if len(alarms) == limit {
			more = true
			break
		}
		alarms = append(alarms, a)
	}
	return alarms, more, errors.Join(err, it.Close())
}

// seqAt is the number of the last alarm at or before a position: positions rise with numbers, so
// it is found by halving.
func (s *Service) seqAt(id uint64, at stream.Position, low uint64) (uint64, error) {
	last, err := lastSeq(s.kv, id)
	own := s.views.Log.ID().Of(id)
	// Everything up to low is at or before the position.
	for high := last; low < high && err == nil; {
		mid := low + (high-low+1)/2
		var text []byte
		if text, err = s.kv.Get(logKey(id, mid)); err != nil {
			break
		}
		var a struct {
			Position string `json:"position"`
		}
		if err = json.Unmarshal(text, &a); err != nil {
			break
		}
		var p stream.Position
		if p, err = stream.ParsePosition(a.Position); err != nil {
			break
		}
		// Alarms that were made under an identity that the log had before come before the others.
		if p.Log == own && behind(at, p) {
			high = mid - 1
		} else {
			low = mid
		}
	}
	return low, err
}

// behind reports whether p lies behind at.
func behind(at, p stream.Position) bool {
	return p.Sequence > at.Sequence || p.Sequence == at.Sequence && p.Within > at.Within
}

func ackPrefix(id uint64) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{byte(kv.Groups)}, id), 0)
}
