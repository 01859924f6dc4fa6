package main

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// shop makes the demo's events: people look at pages, fill carts, check out and pay. It has the
// troubles of real traffic: events come out of order, a few payments come minutes late, some are
// sent twice, a few are broken, and now and then one card pays far too often.
//
// Time is an argument: the same seed and the same calls make the same events.
type shop struct {
	rng     *rand.Rand
	run     string // makes ids unique over restarts
	number  int
	waiting arrivals
	burst   burst
}

// arrival is an event on its way to the server.
type arrival struct {
	at     time.Time
	order  int
	stream string
	body   string
}

// burst is a card that is being abused.
type burst struct {
	card string
	left int
	next time.Time
}

// Rates at a quiet hour, in events a second.
const (
	viewsPerSecond     = 14
	cartsPerSecond     = 3
	checkoutsPerSecond = 1.6
	burstEvery         = 75 * time.Second
)

// pick is a value with its share.
type pick struct {
	value string
	share float64
	price float64
}

var (
	countries = []pick{{"DE", 30, 0}, {"FR", 18, 0}, {"US", 17, 0}, {"GB", 12, 0}, {"ES", 9, 0}, {"NL", 8, 0}, {"PL", 6, 0}}
	addresses = []pick{{"/", 30, 0}, {"/search", 22, 0}, {"/product", 34, 0}, {"/cart", 8, 0}, {"/pricing", 6, 0}}
	systems   = []pick{{"ios", 33, 0}, {"android", 29, 0}, {"windows", 21, 0}, {"macos", 13, 0}, {"linux", 4, 0}}
	products  = []pick{{"Espresso cups", 18, 24}, {"Walnut desk", 3, 640}, {"Wool blanket", 11, 89}, {"Desk lamp", 14, 74.5}, {"Field notebook", 25, 12.9}, {"Trail shoes", 12, 129}, {"Rain jacket", 9, 179}, {"Headphones", 8, 249}}
	methods   = []pick{{"card", 70, 0}, {"wallet", 22, 0}, {"transfer", 8, 0}}
)

func newShop(seed uint64, run string) *shop {
	return &shop{rng: rand.New(rand.NewPCG(seed, 0x7469_6465)), run: run}
}

// generate makes the events that happen in [from, to).
func (s *shop) generate(from, to time.Time) {
	seconds := to.Sub(from).Seconds()
	tide := daily(from)
	for range s.poisson(viewsPerSecond * tide * seconds) {
		t := s.within(from, to)
		s.send("page_views", t, fmt.Sprintf(`"user":"u-%d","page":%q,"country":%q,"device":{"os":%q,"width":%d}`,
			s.user(), s.choose(addresses).value, s.choose(countries).value, s.choose(systems).value, 360+s.rng.IntN(5)*320))
	}
	for range s.poisson(cartsPerSecond * tide * seconds) {
		p := s.choose(products)
		s.send("carts", s.within(from, to), fmt.Sprintf(`"user":"u-%d","product":%q,"qty":%d,"price":%.2f`, s.user(), p.value, 1+s.rng.IntN(3), p.price))
	}
	for range s.poisson(checkoutsPerSecond * tide * seconds) {
		t := s.within(from, to)
		user, country := s.user(), s.choose(countries).value
		amount := s.basket()
		s.send("checkouts", t, fmt.Sprintf(`"user":"u-%d","country":%q,"amount":%.2f,"items":%d`, user, country, amount, 1+s.rng.IntN(4)))
		s.pay(t.Add(time.Duration(500+s.rng.IntN(4000))*time.Millisecond), fmt.Sprintf("c-%04d", user), country, amount)
	}
	s.fraud(from, to)
}

// pay sends a payment; some come late, and a few much too late for their minute.
func (s *shop) pay(t time.Time, card, country string, amount float64) {
	status := "ok"
	if s.rng.Float64() < 0.04 {
		status = "declined"
	}
	s.send("payments", t, fmt.Sprintf(`"card":%q,"country":%q,"amount":%.2f,"method":%q,"status":%q`, card, country, amount, s.choose(methods).value, status))
}

// fraud lets one card pay every second or so for a while.
func (s *shop) fraud(from, to time.Time) {
	b := &s.burst
	if b.left == 0 && s.rng.Float64() < to.Sub(from).Seconds()/burstEvery.Seconds() {
		*b = burst{card: fmt.Sprintf("c-%04d", s.user()), left: 8 + s.rng.IntN(8), next: from}
	}
	for b.left > 0 && b.next.Before(to) {
		s.pay(b.next, b.card, "US", 1+float64(s.rng.IntN(400))/100)
		b.next = b.next.Add(time.Duration(400+s.rng.IntN(1600)) * time.Millisecond)
		b.left--
	}
}

// send puts an event on its way.
func (s *shop) send(stream string, t time.Time, members string) {
	s.number++
	body := fmt.Sprintf(`{"id":"%s-%d","ts":%q,%s}`, s.run, s.number, t.UTC().Format("2006-01-02T15:04:05.000Z"), members)
	delay := time.Duration(s.rng.ExpFloat64() * 300 * float64(time.Millisecond))
	delay = min(delay, 3*time.Second)
	if stream == "payments" && s.rng.Float64() < 0.03 {
		delay = time.Duration(40+s.rng.IntN(90)) * time.Second
	}
	s.push(t.Add(delay), stream, body)
	switch x := s.rng.Float64(); {
	case x < 0.01: // a client that got no answer sends again
		s.push(t.Add(delay+time.Second), stream, body)
	case x < 0.0107 && stream == "payments":
		s.push(t.Add(delay), stream, fmt.Sprintf(`{"id":"%s-%d-bad","ts":"yesterday",%s}`, s.run, s.number, members))
	case x < 0.0112 && stream == "carts":
		s.push(t.Add(delay), stream, fmt.Sprintf(`{"id":"%s-%d-bad","ts":%q,"product":"Free lunch","qty":"many"}`, s.run, s.number, t.UTC().Format(time.RFC3339)))
	}
}

func (s *shop) push(at time.Time, stream, body string) {
	heap.Push(&s.waiting, arrival{at: at, order: len(s.waiting) + s.number<<20, stream: stream, body: body})
}

// due takes the events that have arrived by now, in order of arrival.
func (s *shop) due(now time.Time) []arrival {
	var out []arrival
	for len(s.waiting) > 0 && !s.waiting[0].at.After(now) {
		out = append(out, heap.Pop(&s.waiting).(arrival))
	}
	return out
}

func (s *shop) user() int { return 1000 + int(math.Abs(s.rng.NormFloat64())*220) }

func (s *shop) basket() float64 {
	return math.Round(100*(8+math.Exp(3.4+0.8*s.rng.NormFloat64()))) / 100
}

func (s *shop) within(from, to time.Time) time.Time {
	return from.Add(time.Duration(s.rng.Int64N(int64(to.Sub(from)))))
}

func (s *shop) choose(list []pick) pick {
	total := 0.0
	for _, p := range list {
		total += p.share
	}
	x := s.rng.Float64() * total
	for _, p := range list {
		if x -= p.share; x < 0 {
			return p
		}
	}
	return list[0]
}

// poisson draws a count with the given mean (Knuth's product of uniforms; the means are small).
func (s *shop) poisson(mean float64) int {
	limit, p, n := math.Exp(-mean), 1.0, 0
	for {
		if p *= s.rng.Float64(); p <= limit {
			return n
		}
		n++
	}
}

// daily is the tide of a day: quiet at four in the morning, high in the evening, with a ripple of
// minutes so that charts live at any hour.
func daily(t time.Time) float64 {
	hour := float64(t.Hour()) + float64(t.Minute())/60
	day := 1 - 0.6*math.Cos((hour-4)/24*2*math.Pi)
	ripple := 1 + 0.25*math.Sin(float64(t.Unix())/47) + 0.12*math.Sin(float64(t.Unix())/11)
	return day * ripple
}

// arrivals is a heap by time of arrival.
type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].order < a[j].order
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
