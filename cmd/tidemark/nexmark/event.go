package nexmark

import (
	"math"
	"math/rand/v2"
	"time"
)

// Kind is what an event tells of.
type Kind uint8

// The kinds. Their names are those of the streams.
const (
	Person Kind = iota
	Auction
	Bid
)

func (k Kind) String() string { return [...]string{"person", "auction", "bid"}[k] }

// The proportions and the skew.
const (
	block           = 50 // events: 1 person, 3 auctions, 46 bids
	auctionsOfBlock = 3
	firstID         = 1000
	firstCategory   = 10
	categories      = 5
	inFlight        = 100  // how many auctions back a bid may go
	active          = 1000 // how many persons back an event may refer to
	lead            = 10   // ids ahead of what exists that may be referred to
	hotBatch        = 100  // one hot id in so many
)

// Base is the time of the first event.
var Base = time.Date(2015, 7, 15, 0, 0, 0, 0, time.UTC)

// Options say which events are made.
type Options struct {
	// Seed of the random numbers.
	Seed uint64
	// Rate is events a second of event time; it sets the timestamps. Zero means 10,000.
	Rate int64
	// Disorder is the size of the groups within which events come in another order. Zero and 1
	// mean in order.
	Disorder int64
}

// Generator makes events. It belongs to one goroutine.
type Generator struct {
	o        Options
	source   *rand.PCG
	rng      *rand.Rand
	channels []channel
}

// New returns a generator.
func New(o Options) *Generator {
	o.Rate = max(o.Rate, 0)
	if o.Rate == 0 {
		o.Rate = 10_000
	}
	o.Disorder = max(o.Disorder, 1)
	g := &Generator{o: o, source: rand.NewPCG(o.Seed, 0)}
	g.rng = rand.New(g.source)
	g.channels = g.makeChannels()
	return g
}

// number is which event comes as the n-th.
func (g *Generator) number(n int64) int64 {
	base := n / g.o.Disorder * g.o.Disorder
	return base + (n*953)%g.o.Disorder
}

// millis is the time of an event by its number, in milliseconds after Base.
func (g *Generator) millis(number int64) int64 {
	return number * 1_000_000 / g.o.Rate / 1000
}

// Until is a time that no event after the n-th is older than, and none up to it younger.
func (g *Generator) Until(n int64) time.Time {
	last := (n/g.o.Disorder + 1) * g.o.Disorder
	return Base.Add(time.Duration(g.millis(last)) * time.Millisecond)
}

// Append appends the n-th event as a line of JSON, and says what kind it is.
func (g *Generator) Append(dst []byte, n int64) ([]byte, Kind) {
	number := g.number(n)
	g.source.Seed(g.o.Seed, uint64(number)+1)
	switch off := number % block; {
	case off == 0:
		return g.person(dst, number), Person
	case off <= auctionsOfBlock:
		return g.auction(dst, number), Auction
	}
	return g.bid(dst, number), Bid
}

// lastPerson and lastAuction are the newest of each when an event happens.
func lastPerson(number int64) int64 { return number / block }

func lastAuction(number int64) int64 {
	group, off := number/block, number%block
	switch {
	case off == 0:
		return auctionsOfBlock*group - 1
	case off <= auctionsOfBlock:
		return auctionsOfBlock*group + off - 1
	}
	return auctionsOfBlock*group + auctionsOfBlock - 1
}

// somebody draws a person who is active, or soon will be.
func (g *Generator) somebody(number int64) int64 {
	last := lastPerson(number)
	n := min(last+1, active)
	return last + 1 - n + g.rng.Int64N(n+lead)
}

func (g *Generator) seller(number int64) int64 {
	if g.rng.IntN(4) > 0 {
		return firstID + lastPerson(number)/hotBatch*hotBatch
	}
	return firstID + g.somebody(number)
}

// bidder is hot as sellers are, but the second of a hundred: the two never coincide.
func (g *Generator) bidder(number int64) int64 {
	if g.rng.IntN(4) > 0 {
		return firstID + lastPerson(number)/hotBatch*hotBatch + 1
	}
	return firstID + g.somebody(number)
}

func (g *Generator) bidOn(number int64) int64 {
	last := lastAuction(number)
	if g.rng.IntN(2) > 0 {
		return firstID + last/hotBatch*hotBatch
	}
	first := max(last-inFlight, 0)
	return firstID + first + g.rng.Int64N(last-first+1+lead)
}

// price is log-uniform from 1.00 to 1,000,000.00, in cents.
func (g *Generator) price() int64 {
	return int64(math.Round(100 * math.Pow(10, 6*g.rng.Float64())))
}

// expires is when an auction ends: after about as long as it is in flight.
func (g *Generator) expires(number int64) int64 {
	at := g.millis(number)
	horizon := g.millis(number+inFlight*block/auctionsOfBlock) - at
	return at + 1 + g.rng.Int64N(max(2*horizon, 1))
}
