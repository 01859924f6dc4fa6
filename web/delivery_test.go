package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"tidemark/web"
)

// The worked examples of docs/delivery.md, as they stand there. Each is run with a worker that dies at
// every possible moment.

// begin of the examples
type event struct {
	Partition int             `json:"partition"`
	Offset    int64           `json:"offset"`
	Event     json.RawMessage `json:"event"`
}

type polled struct {
	Generation int64   `json:"generation"`
	Events     []event `json:"events"`
}

type m = map[string]any

// call posts to an address below /v1/streams/{stream}/groups/{group}.
func call(address string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := http.Post(address, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// atMostOnce: the events are committed before they are here.
func atMostOnce(group string, work func(event) error) error {
	var p polled
	err := call(group+"/poll", m{"member": "w1", "max": 10, "delivery": "at_most_once"}, &p)
	for _, e := range p.Events {
		if err := work(e); err != nil {
			fmt.Println("lost:", e.Partition, e.Offset, err)
		}
	}
	return err
}

// atLeastOnce: work, then commit. A worker that dies in between has the event given again.
func atLeastOnce(group string, work func(event) error) error {
	var p polled
	err := call(group+"/poll", m{"member": "w1", "max": 10, "delivery": "at_least_once"}, &p)
	for _, e := range p.Events {
		if failed := work(e); failed != nil {
			return call(group+"/nack", m{
				"member": "w1", "generation": p.Generation,
				"partition": e.Partition, "offset": e.Offset, "reason": failed.Error(),
			}, &m{})
		}
		if err := call(group+"/commit", m{
			"member": "w1", "generation": p.Generation,
			"offsets": m{fmt.Sprint(e.Partition): e.Offset + 1},
		}, &m{}); err != nil {
			return err // 409: the partition is somebody else's by now, and so is the event
		}
	}
	return err
}

// exactlyOnce: the effect and the event's place are one transaction of your own database. An event
// that is given again finds its place there, and changes nothing.
func exactlyOnce(group string, db database) error {
	return atLeastOnce(group, func(e event) error {
		return db.transaction(func(tx transaction) error {
			// INSERT INTO done (partition, "offset") VALUES ($1, $2) ON CONFLICT DO NOTHING
			if !tx.insertDone(e.Partition, e.Offset) {
				return nil // the effect is there already
			}
			return tx.apply(e.Event) // UPDATE accounts SET … in the same transaction
		})
	})
}

// end of the examples

type database interface {
	transaction(func(transaction) error) error
}

type transaction interface {
	insertDone(partition int, offset int64) bool
	apply(json.RawMessage) error
}

// died is a panic that stands for the end of the process.
type died struct{}

// surviving runs f and says whether the process lived.
func surviving(f func() error) (lived bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, ok := cause.(died); !ok {
				panic(cause)
			}
			lived = false
		}
	}()
	return true, f()
}

// memory is a database in which a transaction is whole or absent, with a moment to die in it.
type memory struct {
	done    map[[2]int64]bool
	effects int
	die     func(moment string)
}

type memoryTx struct {
	m       *memory
	done    [][2]int64
	effects int
}

func (db *memory) transaction(f func(transaction) error) error {
	tx := &memoryTx{m: db}
	db.die("before")
	if err := f(tx); err != nil {
		return err
	}
	db.die("in the transaction")
	for _, k := range tx.done {
		db.done[k] = true
	}
	db.effects += tx.effects
	db.die("after")
	return nil
}

func (tx *memoryTx) insertDone(p int, o int64) bool {
	k := [2]int64{int64(p), o}
	tx.done = append(tx.done, k)
	return !tx.m.done[k]
}

func (tx *memoryTx) apply(json.RawMessage) error { tx.effects++; return nil }

// dieAt returns a function that ends the process at about one of n moments, at most most times.
func dieAt(rng *rand.Rand, n, most int) func(string) {
	return func(string) {
		if most > 0 && rng.IntN(n) == 0 {
			most--
			panic(died{})
		}
	}
}

func TestDeliveryExamplesKeepTheirPromiseWhenTheWorkerDies(t *testing.T) {
	t.Parallel()
	const events = 5 // of shop
	s := serve(t, web.Options{API: fakeDeps(t)})
	groups := "http://" + s.addr + "/v1/streams/shop/groups/"
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))

		tried := map[int64]int{}
		die := dieAt(rng, 4, 3)
		for range 10 {
			_, err := surviving(func() error {
				return atMostOnce(fmt.Sprint(groups, "most", seed), func(e event) error {
					die("before")
					tried[e.Offset]++
					die("after")
					return nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for o, n := range tried {
			if n > 1 {
				t.Errorf("seed %d: at most once, but event %d was worked on %d times", seed, o, n)
			}
		}

		tried = map[int64]int{}
		die = dieAt(rng, 4, 3)
		for range 20 {
			_, err := surviving(func() error {
				return atLeastOnce(fmt.Sprint(groups, "least", seed), func(e event) error {
					die("before")
					tried[e.Offset]++
					die("after")
					return nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(tried) != events {
			t.Errorf("seed %d: at least once, but only %v were worked on", seed, tried)
		}

		db := &memory{done: map[[2]int64]bool{}, die: dieAt(rng, 6, 3)}
		for range 20 {
			if _, err := surviving(func() error { return exactlyOnce(fmt.Sprint(groups, "exactly", seed), db) }); err != nil {
				t.Fatal(err)
			}
		}
		if db.effects != events {
			t.Errorf("seed %d: exactly once, but %d events have %d effects", seed, events, db.effects)
		}
	}
}

func TestDeliveryExamplesAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("delivery_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/delivery.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "// begin of the examples\n")
	examples, _, _ := strings.Cut(rest, "// end of the examples\n")
	for _, one := range strings.Split(strings.TrimSpace(examples), "\n\n// ") {
		if one = strings.TrimSpace(one); !strings.Contains(string(page), one) {
			t.Errorf("docs/delivery.md does not have this example:\n%s", one)
		}
	}
}
