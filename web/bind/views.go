package bind

import (
	"context"
	"encoding/json"
	"math"

	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/windows/runtime"
)

// Views is the views' service as the endpoints call it.
func Views(s *runtime.Service) api.Views { return views{s} }

type views struct{ *runtime.Service }

func (v views) Put(ctx context.Context, name string, body []byte, dryRun bool) (any, bool, error) {
	d, err := runtime.ParseDefinition(body)
	if err != nil {
		return nil, false, err
	}
	info, created, err := v.Service.Put(ctx, name, d, dryRun)
	return info, created, err
}

func (v views) Get(name string) (any, error) { return answer(v.Service.Get(name)) }

// answer gives up a value's type.
func answer[T any](value T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return value, nil
}

func (v views) List() ([]api.Named, error) {
	infos, err := v.Service.List()
	if err != nil {
		return nil, err
	}
	out := make([]api.Named, len(infos))
	for i, info := range infos {
		out[i] = api.Named{Name: info.Name, Value: info}
	}
	return out, nil
}

func (v views) Pause(ctx context.Context, name string) (any, error) {
	return answer(v.Service.Pause(ctx, name))
}

func (v views) Resume(ctx context.Context, name string) (any, error) {
	return answer(v.Service.Resume(ctx, name))
}

func (v views) Rebuild(ctx context.Context, name string) (any, error) {
	return answer(v.Service.Rebuild(ctx, name))
}

func (v views) Rows(ctx context.Context, name string, q api.RowsQuery) (any, error) {
	h := held{all: true, where: q.Where}
	if l := auth.From(ctx).Link(); l != nil {
		var err error
		if h, err = hold(v.Service, l, name, q.Where, q.Order); err != nil {
			return nil, err
		}
		if err := h.noPages(q.Cursor); err != nil {
			return nil, err
		}
	}
	a, err := v.Service.Rows(ctx, name, runtime.RowsQuery{
		Where: h.where, Order: q.Order, Limit: q.Limit, Final: q.Final, After: q.After, Wait: q.Wait, Cursor: q.Cursor,
	})
	if err != nil {
		return nil, err
	}
	h.rows(a)
	return a, nil
}

func (v views) Watermark(name string) (any, error) { return answer(v.Service.WatermarkInfo(name)) }

func (v views) Errors(name, cursor string, limit int) (items any, next string, err error) {
	page, err := v.Service.Errors(name, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	if page.Next != nil {
		next = *page.Next
	}
	return page.Items, next, nil
}

func (v views) Late(view string, from int64, limit int) ([]json.RawMessage, int64, error) {
	page, err := v.Service.LateEvents(view, from, limit)
	if err != nil {
		return nil, 0, err
	}
	out := make([]json.RawMessage, len(page.Events))
	for i, e := range page.Events {
		if out[i], err = lateEvent(e); err != nil {
			return nil, 0, err
		}
	}
	return out, page.Next, nil
}

func (v views) LateEnds(view string) (first, next int64, err error) {
	page, err := v.Service.LateEvents(view, math.MaxInt64, 1)
	if err != nil {
		return 0, 0, err
	}
	return page.First, page.End, nil
}

// lateEvent is a late record as readers of a stream get an event: the record is the event, and
// its time is that of the event which was late.
func lateEvent(e runtime.LateEvent) (json.RawMessage, error) {
	return json.Marshal(struct {
		Partition  int               `json:"partition"`
		Offset     int64             `json:"offset"`
		Time       *string           `json:"time"`
		AppendTime *string           `json:"append_time"`
		Key        *string           `json:"key"`
		Event      runtime.LateEvent `json:"event"`
	}{Offset: e.Number, Time: e.Time, Event: e})
}
