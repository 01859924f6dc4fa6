package nexmark

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

var (
	firstNames = []string{"Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"}
	lastNames  = []string{"Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"}
	cities     = []string{"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"}
	states     = []string{"AZ", "CA", "ID", "OR", "WA", "WY"}
	hot        = []string{"Google", "Facebook", "Baidu", "Apple"}
)

// coldChannels is how many channels share the half of the bids that the hot ones leave.
const coldChannels = 10_000

// The average sizes of events, which extra fills up to.
const (
	personSize  = 200
	auctionSize = 500
	bidSize     = 100
)

// channel is where a bid came from, with its url.
type channel struct{ name, url string }

// makeChannels draws the channels: the hot ones first, whose urls name no channel, then the others,
// nine in ten of whose urls do.
func (g *Generator) makeChannels() []channel {
	list := make([]channel, 0, len(hot)+coldChannels)
	for _, name := range hot {
		list = append(list, channel{name, g.url()})
	}
	for i := range coldChannels {
		c := channel{"channel-" + strconv.Itoa(i), g.url()}
		if g.rng.IntN(10) > 0 {
			id := int32(bits.Reverse32(uint32(i)))
			c.url += "&channel_id=" + strconv.Itoa(int(max(id, -id)))
		}
		list = append(list, c)
	}
	return list
}

func (g *Generator) url() string {
	var b []byte
	b = append(b, "https://www.nexmark.com/"...)
	for range 3 {
		b = append(g.words(b, 5, '_'), '/')
	}
	return string(append(b, "item.htm?query=1"...))
}

func (g *Generator) channel() channel {
	if g.rng.IntN(2) > 0 {
		return g.channels[g.rng.IntN(len(hot))]
	}
	return g.channels[len(hot)+g.rng.IntN(coldChannels)]
}

// words appends a text of 3 to limit−1 letters, one in 13 of which is the separator; spaces
// at the ends are cut off.
func (g *Generator) words(dst []byte, limit int, separator byte) []byte {
	from := len(dst)
	for range 3 + g.rng.IntN(limit-3) {
		if g.rng.IntN(13) == 0 {
			dst = append(dst, separator)
		} else {
			dst = append(dst, byte('a'+g.rng.IntN(26)))
		}
	}
	text := strings.Trim(string(dst[from:]), " ")
	return append(dst[:from], text...)
}

// extra appends letters that bring an event of size bytes to about the average.
func (g *Generator) extra(dst []byte, size, average int) []byte {
	if size > average {
		return dst
	}
	wanted := average - size
	delta := (wanted + 2) / 5
	n := wanted - delta
	if delta > 0 {
		n += g.rng.IntN(2 * delta)
	}
	for range n {
		dst = append(dst, byte('a'+g.rng.IntN(26)))
	}
	return dst
}

func (g *Generator) pick(list []string) string { return list[g.rng.IntN(len(list))] }

// object writes the members of one JSON object. Nothing that is written needs escapes.
type object struct {
	b    []byte
	open bool
}

func (o *object) name(name string) {
	if o.open {
		o.b = append(o.b, ',')
	} else {
		o.b = append(o.b, '{')
	}
	o.open = true
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) number(name string, x int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, x, 10)
}

// text writes what write appends, and returns how long that was.
func (o *object) text(name string, write func(dst []byte) []byte) int {
	o.name(name)
	o.b = append(o.b, '"')
	from := len(o.b)
	o.b = write(o.b)
	n := len(o.b) - from
	o.b = append(o.b, '"')
	return n
}

func (o *object) string(name, value string) int {
	return o.text(name, func(dst []byte) []byte { return append(dst, value...) })
}

func (o *object) time(name string, millis int64) {
	o.text(name, func(dst []byte) []byte {
		return Base.Add(time.Duration(millis)*time.Millisecond).AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	})
}

func (o *object) end() []byte { return append(o.b, '}', '\n') }

func (g *Generator) person(dst []byte, number int64) []byte {
	o := object{b: dst}
	o.number("id", firstID+lastPerson(number))
	size := 16
	size += o.string("name", g.pick(firstNames)+" "+g.pick(lastNames))
	size += o.text("email_address", func(dst []byte) []byte {
		return append(g.words(append(g.words(dst, 7, ' '), '@'), 5, ' '), ".com"...)
	})
	size += o.text("credit_card", func(dst []byte) []byte {
		for i := range 4 {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = append(dst, strconv.Itoa(10_000 + g.rng.IntN(10_000))[1:]...)
		}
		return dst
	})
	size += o.string("city", g.pick(cities))
	size += o.string("state", g.pick(states))
	o.time("date_time", g.millis(number))
	o.text("extra", func(dst []byte) []byte { return g.extra(dst, size, personSize) })
	return o.end()
}

func (g *Generator) auction(dst []byte, number int64) []byte {
	o := object{b: dst}
	o.number("id", firstID+lastAuction(number))
	size := 56
	size += o.text("item_name", func(dst []byte) []byte { return g.words(dst, 20, ' ') })
	size += o.text("description", func(dst []byte) []byte { return g.words(dst, 100, ' ') })
	initial := g.price()
	o.number("initial_bid", initial)
	o.number("reserve", initial+g.price())
	o.time("date_time", g.millis(number))
	o.time("expires", g.expires(number))
	o.number("seller", g.seller(number))
	o.number("category", firstCategory+g.rng.Int64N(categories))
	o.text("extra", func(dst []byte) []byte { return g.extra(dst, size, auctionSize) })
	return o.end()
}

func (g *Generator) bid(dst []byte, number int64) []byte {
	o := object{b: dst}
	o.number("auction", g.bidOn(number))
	o.number("bidder", g.bidder(number))
	o.number("price", g.price())
	c := g.channel()
	o.string("channel", c.name)
	o.string("url", c.url)
	o.time("date_time", g.millis(number))
	o.text("extra", func(dst []byte) []byte { return g.extra(dst, 32, bidSize) })
	return o.end()
}
