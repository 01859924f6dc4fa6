package nexmark

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"testing"
)

type event struct {
	ID, Auction, Bidder, Seller, Price int64
	Channel, Extra                     string
	Kind                               Kind
}

func first(t *testing.T, o Options, n int64) []event {
	t.Helper()
	g := New(o)
	list := make([]event, n)
	for i := range list {
		line, kind := g.Append(nil, int64(i))
		if err := json.Unmarshal(line, &list[i]); err != nil {
			t.Fatalf("event %d: %v: %s", i, err, line)
		}
		list[i].Kind = kind
	}
	return list
}

// The workload's shape is the published one: kinds, ids, skew, prices.
func TestEventsHaveThePublishedShape(t *testing.T) {
	t.Parallel()
	const n = 100_000
	count := map[Kind]int64{}
	var hotAuction, hotBidder, low, high, coldChannel int
	letters := [2]int{1000, 0}
	for i, e := range first(t, Options{Seed: 1}, n) {
		count[e.Kind]++
		switch e.Kind {
		case Person:
			if want := 999 + count[Person]; e.ID != want {
				t.Fatalf("event %d: person %d, want %d: ids are dense", i, e.ID, want)
			}
		case Auction:
			if want := 999 + count[Auction]; e.ID != want {
				t.Fatalf("event %d: auction %d, want %d: ids are dense", i, e.ID, want)
			}
		case Bid:
			last := 999 + count[Auction]
			if e.Auction > last+10 || e.Auction < last-100 && (e.Auction-1000)%100 != 0 {
				t.Fatalf("event %d: a bid on auction %d when %d is the last", i, e.Auction, last)
			}
			if e.Auction == 1000+(last-1000)/100*100 {
				hotAuction++
			}
			if e.Bidder == 1001+(count[Person]-1)/100*100 {
				hotBidder++
			}
			if e.Price < 100 || e.Price > 100_000_000 {
				t.Fatalf("event %d: a price of %d", i, e.Price)
			}
			if e.Price < 10_000 {
				low++
			}
			if e.Price >= 1_000_000 {
				high++
			}
			if len(e.Channel) > 8 {
				coldChannel++
			}
			letters = [2]int{min(letters[0], len(e.Extra)), max(letters[1], len(e.Extra))}
		}
	}
	bids := float64(count[Bid])
	if count[Person] != n/50 || count[Auction] != 3*n/50 {
		t.Errorf("%d persons and %d auctions", count[Person], count[Auction])
	}
	if letters != [2]int{54, 81} {
		t.Errorf("extra of a bid has %d to %d letters, want 54 to 81", letters[0], letters[1])
	}
	for _, c := range []struct {
		what        string
		n           int
		least, most float64
	}{
		{"bids on the hot auction", hotAuction, 0.49, 0.53},
		{"bids of the hot bidder", hotBidder, 0.74, 0.77},
		{"bids below 100.00", low, 0.32, 0.35},
		{"bids from 10,000.00 on", high, 0.32, 0.35},
		{"bids from other channels", coldChannel, 0.48, 0.52},
	} {
		if share := float64(c.n) / bids; share < c.least || share > c.most {
			t.Errorf("%s: a share of %.3f, want %.2f to %.2f", c.what, share, c.least, c.most)
		}
	}
}

// I1
func TestEventsAreTheSameForEver(t *testing.T) {
	t.Parallel()
	g := New(Options{Seed: 1})
	h := fnv.New64a()
	for n := range int64(1000) {
		line, _ := g.Append(nil, n)
		h.Write(line)
	}
	if got, want := fmt.Sprintf("%x", h.Sum64()), "b82bc693844278d2"; got != want {
		t.Errorf("the first 1,000 events of seed 1 hash to %s, they did to %s", got, want)
	}
	again, _ := New(Options{Seed: 1}).Append(nil, 777)
	same, _ := g.Append(nil, 777)
	if string(again) != string(same) {
		t.Errorf("event 777 depends on what was made before:\n%s%s", again, same)
	}
}

// I2
func TestDisorderIsAPermutationOfEachGroup(t *testing.T) {
	t.Parallel()
	g := New(Options{Disorder: 1000})
	seen := map[int64]bool{}
	inOrder := true
	for n := range int64(3000) {
		number := g.number(n)
		if seen[number] || number/1000 != n/1000 {
			t.Fatalf("event %d has number %d", n, number)
		}
		seen[number] = true
		inOrder = inOrder && number == n
	}
	if inOrder {
		t.Error("events of a group came in order")
	}
}
