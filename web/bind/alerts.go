package bind

import (
	"context"
	"encoding/json"
	"strconv"

	"tidemark/stream"
	"tidemark/web/api"
	"tidemark/web/live"
	"tidemark/windows/alert"
	"tidemark/windows/runtime"
)

// Alerts is the alerts' service as the endpoints call it.
func Alerts(s *alert.Service) api.Alerts { return alerts{s} }

type alerts struct{ *alert.Service }

func (a alerts) Put(ctx context.Context, name string, body []byte, dryRun bool) (any, bool, error) {
	d, err := alert.ParseDefinition(body)
	if err != nil {
		return nil, false, err
	}
	info, created, err := a.Service.Put(ctx, name, d, dryRun)
	return info, created, err
}

func (a alerts) Get(name string) (any, error) { return answer(a.Service.Get(name)) }

func (a alerts) List() ([]api.Named, error) {
	infos, err := a.Service.List()
	if err != nil {
		return nil, err
	}
	out := make([]api.Named, len(infos))
	for i, info := range infos {
		out[i] = api.Named{Name: info.Name, Value: info}
	}
	return out, nil
}

func (a alerts) Log(name, after string, limit int) ([]json.RawMessage, string, bool, error) {
	// A position that a subscriber got names a number of the log.
	if p, err := stream.ParsePosition(after); err == nil && live.IsNumbered(p) && a.Owns(name, p) {
		after = strconv.FormatInt(int64(p.Sequence), 10)
	}
	page, err := a.Service.Log(name, after, limit)
	if err != nil {
		return nil, "", false, err
	}
	out := make([]json.RawMessage, len(page.Items))
	position := after
	for i, alarm := range page.Items {
		if out[i], err = json.Marshal(alarm); err != nil {
			return nil, "", false, err
		}
		position = strconv.FormatUint(alarm.Seq, 10)
	}
	return out, position, page.Next != nil, nil
}

// liveAlerts are the alerts' logs as the hub reads them.
type liveAlerts struct {
	alerts *alert.Service
	views  *runtime.Service
}

func (l liveAlerts) Log(name string, after int64, limit int) ([]live.Entry, error) {
	page, err := l.alerts.Log(name, strconv.FormatInt(after, 10), limit)
	if err != nil {
		return nil, err
	}
	out := make([]live.Entry, len(page.Items))
	for i, alarm := range page.Items {
		text, err := json.Marshal(alarm)
		if err != nil {
			return nil, err
		}
		out[i] = live.Entry{Number: int64(alarm.Seq), Time: micros(alarm.EmitTime), JSON: text}
	}
	return out, nil
}

func (l liveAlerts) Ends(name string) (oldest, newest int64, err error) {
	info, err := l.alerts.Get(name)
	if err != nil || info.LastSeq == 0 {
		return 0, 0, err
	}
	return int64(info.FirstSeq), int64(info.LastSeq), nil
}

func (l liveAlerts) At(name string, p stream.Position) (number int64, ok bool, err error) {
	if p.Sequence > l.views.Log.End() {
		return 0, false, nil
	}
	behind, err := l.alerts.After(name, p, 1)
	if err != nil || len(behind) > 0 {
		if err == nil {
			number = int64(behind[0].Seq) - 1
		}
		return number, true, err
	}
	_, newest, err := l.Ends(name)
	return newest, true, err
}

func (l liveAlerts) Watch(name string) (<-chan struct{}, func()) { return watch(l.views, name) }
