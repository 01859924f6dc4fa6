package api

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/group"
)

// Groups keeps the consumer groups of streams; *group.Service is one.
type Groups interface {
	Poll(ctx context.Context, id stream.ID, name string, r group.Poll) (*group.Polled, error)
	Commit(id stream.ID, name string, c group.Commit) (*group.Committed, error)
	Nack(id stream.ID, name string, n group.Nack) (*group.Nacked, error)
	Seek(id stream.ID, name string, s group.Seek) (*group.Committed, error)
	Leave(id stream.ID, name, member string) error
	Get(id stream.ID, name string) (*group.Info, error)
	List(id stream.ID) ([]group.Info, error)
	Delete(id stream.ID, name string) error
}

func (e *endpoints) mountGroups(v1 fiber.Router) {
	v1.Get("/streams/:name/groups", e.listGroups)
	v1.Get("/streams/:name/groups/:group", e.getGroup)
	v1.Delete("/streams/:name/groups/:group", e.deleteGroup)
	v1.Post("/streams/:name/groups/:group/poll", e.pollGroup)
	v1.Post("/streams/:name/groups/:group/commit", e.commitGroup)
	v1.Post("/streams/:name/groups/:group/nack", e.nackGroup)
	v1.Post("/streams/:name/groups/:group/seek", e.seekGroup)
	v1.Post("/streams/:name/groups/:group/leave", e.leaveGroup)
}

// groupOf is the stream and the group that the address names.
func (e *endpoints) groupOf(c *fiber.Ctx) (*stream.Stream, string, error) {
	if err := allow(c); err != nil {
		return nil, "", err
	}
	s, err := e.stream(c)
	if err != nil {
		return nil, "", err
	}
	name := strings.Clone(c.Params("group"))
	return s, name, group.CheckName(name)
}

// offsets are offsets by partition, as JSON has them: {"0":123}.
type offsets map[stream.Partition]stream.Offset

func (o *offsets) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return problem.New(400, "bad_body", "offsets is no object").WithHint(`send {"offsets":{"0":123}}`)
	}
	*o = offsets{}
	for p, value := range members {
		n, err1 := strconv.ParseUint(p, 10, 31)
		at, err2 := strconv.ParseInt(string(value), 10, 64)
		if err1 != nil || err2 != nil || at < 0 {
			return problem.New(400, "bad_body", "offsets: %.40q: %.40q is no offset of a partition", p, string(value)).
				WithHint(`partitions and offsets are whole numbers: {"offsets":{"0":123}}`)
		}
		(*o)[stream.Partition(n)] = stream.Offset(at)
	}
	return nil
}

// timeSpan is a member of a body such as "5s".
func timeSpan(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := stream.ParseDuration(text)
	if err != nil {
		return 0, problem.New(400, "bad_body", "%s: %v", name, err).WithHint("give a time such as 5s")
	}
	return time.Duration(d), nil
}

func (e *endpoints) pollGroup(c *fiber.Ctx) error {
	s, name, err := e.groupOf(c)
	if err != nil {
		return err
	}
	var b struct {
		Member         string           `json:"member"`
		Max            *int             `json:"max"`
		Wait           string           `json:"wait"`
		Delivery       string           `json:"delivery"`
		Generation     group.Generation `json:"generation"`
		SessionTimeout string           `json:"session_timeout"`
	}
	if err := decode(c, &b, `send {"member":"m1","max":100,"wait":"5s","delivery":"at_least_once"}`); err != nil {
		return err
	}
	r := group.Poll{Member: b.Member, Generation: b.Generation}
	switch b.Delivery {
	case "", "at_least_once":
	case "at_most_once":
		r.AtMostOnce = true
	default:
		return problem.New(400, "bad_poll", "delivery is %.40q", b.Delivery).WithHint("give at_least_once or at_most_once")
	}
	if b.Max != nil {
		if r.Max = *b.Max; r.Max == 0 {
			r.Max = -1 // refused, where 0 is the default
		}
	}
	if r.Wait, err = timeSpan("wait", b.Wait); err != nil {
		return err
	}
	if r.Session, err = timeSpan("session_timeout", b.SessionTimeout); err != nil {
		return err
	}
	if b.SessionTimeout != "" && r.Session == 0 {
		r.Session = -1
	}
	ctx, cancel := e.waiting(c, group.MaxWait+time.Second)
	defer cancel()
	// A member that has gone while it waited is given nothing: it would count as a failed attempt.
	stop := watchClient(c.Context().Conn(), cancel)
	out, err := e.Groups.Poll(ctx, s.ID, name, r)
	stop()
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(appendPolled(nil, out))
}

func appendPolled(dst []byte, out *group.Polled) []byte {
	dst = strconv.AppendInt(append(dst, `{"generation":`...), int64(out.Generation), 10)
	dst = append(dst, `,"partitions":[`...)
	for i, p := range out.Partitions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"partition":`...), int64(p), 10)
		dst = strconv.AppendInt(append(dst, `,"committed_offset":`...), int64(out.Committed[i]), 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"events":[`...)
	for i := range out.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendGiven(dst, &out.Events[i])
	}
	dst = append(dst, ']')
	if len(out.Rewound) > 0 {
		text, err := json.Marshal(out.Rewound)
		if err != nil {
			panic(err) // plain values only
		}
		dst = append(append(dst, `,"rewound":`...), text...)
	}
	return append(dst, '}')
}

// appendGiven appends an event in the form that readers of partitions get, with what a group knows.
func appendGiven(dst []byte, ev *group.Event) []byte {
	dst = strconv.AppendInt(append(dst, `{"partition":`...), int64(ev.Partition), 10)
	dst = strconv.AppendInt(append(dst, `,"offset":`...), int64(ev.Offset), 10)
	dst = row.FormatTimestamp(append(dst, `,"time":"`...), ev.Time)
	dst = row.FormatTimestamp(append(dst, `","append_time":"`...), ev.AppendTime)
	dst = append(dst, `","key":`...)
	if ev.Key == nil {
		dst = append(dst, "null"...)
	} else {
		dst = row.AppendJSONString(dst, *ev.Key)
	}
	if ev.Attempts > 0 {
		dst = strconv.AppendInt(append(dst, `,"attempts":`...), int64(ev.Attempts), 10)
	}
	if ev.DeadLetter != "" {
		dst = row.AppendJSONString(append(dst, `,"dead_letter":`...), ev.DeadLetter)
	}
	dst = append(dst, `,"event":`...)
	if len(ev.Raw) > 0 {
		dst = append(dst, ev.Raw...)
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, '}')
}

// standsAnswer answers a commit or a seek.
func standsAnswer(c *fiber.Ctx, out *group.Committed) error {
	return c.JSON(fiber.Map{"generation": out.Generation, "committed": out.Offsets})
}

func (e *endpoints) commitGroup(c *fiber.Ctx) error {
	s, name, err := e.groupOf(c)
	if err != nil {
		return err
	}
	var b struct {
		Member     string           `json:"member"`
		Generation group.Generation `json:"generation"`
		Offsets    offsets          `json:"offsets"`
	}
	if err := decode(c, &b, `send {"member":"m1","generation":7,"offsets":{"0":123}}: 123 is the next offset to read`); err != nil {
		return err
	}
	out, err := e.Groups.Commit(s.ID, name, group.Commit{Member: b.Member, Generation: b.Generation, Offsets: b.Offsets})
	if err != nil {
		return err
	}
	return standsAnswer(c, out)
}

func (e *endpoints) nackGroup(c *fiber.Ctx) error {
	s, name, err := e.groupOf(c)
	if err != nil {
		return err
	}
	const hint = `send {"member":"m1","generation":7,"partition":0,"offset":12,"reason":"no such customer"}`
	var b struct {
		Member     string           `json:"member"`
		Generation group.Generation `json:"generation"`
		Partition  *int32           `json:"partition"`
		Offset     *int64           `json:"offset"`
		Reason     string           `json:"reason"`
	}
	if err := decode(c, &b, hint); err != nil {
		return err
	}
	if b.Partition == nil || b.Offset == nil {
		return problem.New(400, "bad_nack", "partition or offset is missing").WithHint(hint)
	}
	out, err := e.Groups.Nack(s.ID, name, group.Nack{
		Member: b.Member, Generation: b.Generation, Reason: b.Reason,
		Place: stream.Place{Partition: stream.Partition(*b.Partition), Offset: stream.Offset(*b.Offset)},
	})
	if err != nil {
		return err
	}
	answer := fiber.Map{"generation": out.Generation, "attempts": out.Attempts, "dead_letter": nil}
	if out.DeadLetter != "" {
		answer["dead_letter"] = out.DeadLetter
	}
	return c.JSON(answer)
}

func (e *endpoints) seekGroup(c *fiber.Ctx) error {
	s, name, err := e.groupOf(c)
	if err != nil {
		return err
	}
	var b struct {
		To      string          `json:"to"`
		Time    json.RawMessage `json:"time"`
		Offsets offsets         `json:"offsets"`
	}
	if err := decode(c, &b, `send {"to":"earliest"}, {"to":"latest"}, {"time":"2024-01-01T12:00:00Z"} or {"offsets":{"0":123}}`); err != nil {
		return err
	}
	r := group.Seek{To: b.To, Offsets: b.Offsets}
	if len(b.Time) > 0 && string(b.Time) != "null" {
		at := row.NewVector(row.Scalar(row.Timestamp), 1)
		if err := row.ParseJSONValue(at, b.Time); err != nil {
			return problem.New(400, "bad_time", "time: %v", err).WithHint(`give an instant such as "2024-01-01T12:00:00Z"`)
		}
		r.Time = &at.I64[0]
	}
	out, err := e.Groups.Seek(s.ID, name, r)
	if err != nil {
		return err
	}
	return standsAnswer(c, out)
}

func (e *endpoints) leaveGroup(c *fiber.Ctx) error {
	s, name, err := e.groupOf(c)
	if err != nil {
		return err
	}
	var b struct {
		Member string `json:"member"`
	}
	if err := decode(c, &b, `send {"member":"m1"}`); err != nil {
		return err
	}
	if err := e.Groups.Leave(s.ID, name, b.Member); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

func (e *endpoints) deleteGroup(c *fiber.Ctx) error {
	s, name, err := e.groupOf(c)
	if err != nil {
		return err
	}
	if err := e.Groups.Delete(s.ID, name); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// groupAnswer is a group as clients see it.
type groupAnswer struct {
	Name       string           `json:"name"`
	Generation group.Generation `json:"generation"`
	Members    []memberAnswer   `json:"members"`
	Partitions []standingAnswer `json:"partitions"`
	LagEvents  int64            `json:"lag_events"`
	LagSeconds float64          `json:"lag_seconds"`
	// DeadLetters are kept, Replays wait to be given again.
	DeadLetters int `json:"dead_letters"`
	Replays     int `json:"replays"`
}

type memberAnswer struct {
	Member         string             `json:"member"`
	Partitions     []stream.Partition `json:"partitions"`
	SessionTimeout stream.Duration    `json:"session_timeout"`
	SilentSeconds  float64            `json:"silent_seconds"`
}

type standingAnswer struct {
	Partition   stream.Partition `json:"partition"`
	Member      *string          `json:"member"`
	MovesTo     *string          `json:"moves_to,omitempty"`
	Generation  group.Generation `json:"generation"`
	Committed   stream.Offset    `json:"committed_offset"`
	Given       stream.Offset    `json:"given_offset"`
	FirstOffset stream.Offset    `json:"first_offset"`
	NextOffset  stream.Offset    `json:"next_offset"`
	LagEvents   int64            `json:"lag_events"`
	LagSeconds  float64          `json:"lag_seconds"`
	Attempts    int              `json:"attempts"`
	Expired     int64            `json:"expired"`
	AboveEnd    bool             `json:"above_end,omitempty"`
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func describeGroup(g *group.Info) groupAnswer {
	a := groupAnswer{Name: g.Name, Generation: g.Generation, Members: []memberAnswer{}, Partitions: []standingAnswer{}, DeadLetters: g.DeadLetters, Replays: g.Replays}
	for _, m := range g.Members {
		one := memberAnswer{Member: m.Name, Partitions: m.Partitions, SessionTimeout: stream.Duration(m.Session), SilentSeconds: seconds(m.Silent)}
		if one.Partitions == nil {
			one.Partitions = []stream.Partition{}
		}
		a.Members = append(a.Members, one)
	}
	for _, p := range g.Partitions {
		a.Partitions = append(a.Partitions, standingAnswer{
			Partition: p.Partition, Member: optional(p.Member), MovesTo: optional(p.Next), Generation: p.Since, Committed: p.Committed, Given: p.Given,
			FirstOffset: p.First, NextOffset: p.End, LagEvents: p.LagEvents, LagSeconds: seconds(p.Lag), Attempts: p.Attempts, Expired: p.Expired, AboveEnd: p.Above,
		})
		a.LagEvents += p.LagEvents
		a.LagSeconds = max(a.LagSeconds, seconds(p.Lag))
	}
	return a
}

func (e *endpoints) getGroup(c *fiber.Ctx) error {
	s, name, err := e.groupOf(c)
	if err != nil {
		return err
	}
	info, err := e.Groups.Get(s.ID, name)
	if err != nil {
		return err
	}
	return c.JSON(describeGroup(info))
}

func (e *endpoints) listGroups(c *fiber.Ctx) error {
	s, err := e.stream(c)
	if err != nil {
		return err
	}
	all, err := e.Groups.List(s.ID)
	if err != nil {
		return err
	}
	return list(c, "groups", all, func(g group.Info) string { return g.Name }, func(g group.Info) (any, error) { return describeGroup(&g), nil })
}
