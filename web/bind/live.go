package bind

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/web/auth"
	"tidemark/web/live"
	"tidemark/windows/alert"
	"tidemark/windows/expr"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Live fills in the parts of a hub's options that read views, alerts and streams.
func Live(views *runtime.Service, alerts *alert.Service, acks *alert.Acks, o live.Options) live.Options {
	o.Relations = Relations(views.Catalog)
	o.Log = views.Log
	o.Views = liveViews{views}
	o.Alerts = liveAlerts{alerts, views}
	o.Groups = groups{acks}
	o.Selector = selector{views.Parse}
	o.Client = Client(views)
	return o
}

// Client says who opens a connection. views narrow what a link shows.
func Client(views *runtime.Service) func(*fiber.Ctx) live.Client {
	return func(c *fiber.Ctx) live.Client { return client(views, auth.Of(c)) }
}

// client is who opens a connection, by its key, its session or its link: Revoked is closed when one
// of them ends.
func client(views *runtime.Service, p *auth.Principal) live.Client {
	out := live.Client{Key: p.KeyID, Revoked: p.Revoked(), May: func(r live.Relation) error {
		scope := auth.Read
		if r.Kind == live.Alert {
			scope = auth.Alerts
		}
		if p.Link() != nil && r.Kind == live.LateOf {
			return problem.New(403, "read_only_link", "the dashboard of the link shows no late events").WithHint("use a key for the rest")
		}
		return p.May(scope, r.Name)
	}}
	if l := p.Link(); l != nil {
		out.Looks = true
		out.Narrow = func(r live.Relation, where, order string) (string, *live.Shown, error) {
			h, err := hold(views, l, r.Name, where, order)
			if err != nil {
				return "", nil, err
			}
			return h.where, h.live(), nil
		}
	}
	return out
}

func watch(s *runtime.Service, name string) (<-chan struct{}, func()) {
	ch, stop, err := s.Watch(name)
	if err != nil { // it was deleted: the next read says so
		return nil, func() {}
	}
	return ch, stop
}

// liveViews are the views as the hub reads them.
type liveViews struct{ *runtime.Service }

func (v liveViews) Snapshot(name string) (*live.Snapshot, error) {
	s, err := v.Service.Snapshot(name)
	if err != nil {
		return nil, err
	}
	asOf, err := json.Marshal(s.AsOf)
	if err != nil {
		return nil, err
	}
	return &live.Snapshot{Fields: s.Fields, Rows: s.Rows, Keys: s.Keys, Status: s.Status, Position: s.Position, AsOf: asOf}, nil
}

func (v liveViews) Head(name string) (live.Head, error) {
	position, asOf, err := v.Standing(name)
	if err != nil {
		return live.Head{}, err
	}
	fields, err := v.Fields(name)
	if err != nil {
		return live.Head{}, err
	}
	text, err := json.Marshal(asOf)
	return live.Head{Fields: fields, Position: position, AsOf: text}, err
}

func (v liveViews) Changes(name string, after *stream.Position) (live.Changes, error) {
	from := stream.Position{}
	if after != nil {
		from = *after
	}
	r, err := v.Service.Changes(name, from)
	if err != nil {
		return nil, gap(err)
	}
	return changes{r}, nil
}

// gap translates the runtime's gap.
func gap(err error) error {
	var g *runtime.Gap
	if errors.As(err, &g) {
		return &live.Gap{Oldest: g.Oldest}
	}
	return err
}

type changes struct{ *runtime.ChangeReader }

func (c changes) Next() (*live.Epoch, bool, error) {
	e, ok, err := c.ChangeReader.Next()
	if err != nil || !ok {
		return nil, false, gap(err)
	}
	asOf, err := json.Marshal(e.AsOf)
	if err != nil {
		return nil, false, err
	}
	return &live.Epoch{To: e.To, AsOf: asOf, Changes: e.Changes}, true, nil
}

func (v liveViews) Watch(name string) (<-chan struct{}, func()) { return watch(v.Service, name) }

// Late numbers from 1, as all numbered logs do: offset + 1.
func (v liveViews) Late(view string, after int64, limit int) ([]live.Entry, error) {
	page, err := v.LateEvents(view, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]live.Entry, len(page.Events))
	for i, e := range page.Events {
		text, err := lateEvent(e)
		if err != nil {
			return nil, err
		}
		out[i] = live.Entry{Number: e.Number + 1, JSON: text}
		if e.Time != nil {
			out[i].Time = micros(*e.Time)
		}
	}
	return out, nil
}

func (v liveViews) LateEnds(view string) (oldest, newest int64, err error) {
	page, err := v.LateEvents(view, math.MaxInt64, 1)
	if err != nil {
		return 0, 0, err
	}
	return page.First + 1, page.End, nil
}

// micros reads a time that we wrote.
func micros(text string) int64 {
	at, err := row.ParseTime([]byte(text))
	if err != nil {
		return math.MinInt64
	}
	return at
}

// groups keeps the acknowledgements.
type groups struct{ *alert.Acks }

func (g groups) Acked(relation live.Relation, group string) (string, bool, error) {
	p, ok, err := g.Committed(relation.Name, group)
	if err != nil || !ok {
		return "", false, err
	}
	return p.String(), true, nil
}

func (g groups) Ack(_ context.Context, relation live.Relation, group, position string) error {
	p, err := stream.ParsePosition(position)
	if err != nil {
		return err
	}
	return g.Acks.Ack(relation.Name, group, p)
}

// selector compiles selections with the planner.
type selector struct{ parse query.ParseSQL }

func (s selector) Where(fields []row.Field, text string) (func(*row.Batch) ([]int32, error), error) {
	condition, err := query.CompileWhere(s.parse, fields, text)
	if err != nil || condition == nil {
		return nil, err
	}
	return func(b *row.Batch) ([]int32, error) {
		if b.Len == 0 {
			return nil, nil
		}
		var failures expr.Errors
		rows := condition.Select(b, nil, &failures)
		var failed error
		failures.Each(func(f expr.Failure) {
			if failed == nil {
				failed = problem.New(422, "bad_where", "where fails for a row of the view: %s", f.Message).
					WithHint("make it true or false for every row, for example with try_cast")
			}
		})
		return append([]int32{}, rows...), failed
	}, nil
}

func (s selector) Order(fields []row.Field, text string) ([]live.OrderKey, error) {
	keys, err := query.ParseOrder(s.parse, fields, text)
	if err != nil {
		return nil, err
	}
	out := make([]live.OrderKey, len(keys))
	for i, k := range keys {
		out[i] = live.OrderKey{Column: k.Col, Desc: k.Desc, NullsLast: k.NullsLast}
	}
	return out, nil
}
