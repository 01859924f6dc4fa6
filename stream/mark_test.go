package stream

import (
	"testing"

	"pgregory.net/rapid"
)

// plainMark is a stream's watermark for one max_out_of_orderness, as W1–W5 tell it.
type plainMark struct {
	late        Micros
	max         []Micros
	idle        []bool
	advance     Micros
	ever, value Micros
	allIdle     bool
	idled       bool
	last        Micros
}

func (p *plainMark) own(i int) Micros {
	if p.max[i] == NoTime {
		return p.advance
	}
	return max(p.max[i]-p.late, p.advance)
}

func (p *plainMark) settle() {
	if !p.allIdle {
		p.value = p.advance
		first := true
		for i := range p.max {
			if !p.idle[i] {
				if v := p.own(i); first || v < p.value {
					p.value = v
				}
				first = false
			}
		}
	}
	p.ever = max(p.ever, p.value)
}

func (p *plainMark) event(i int, counted Micros) {
	p.idle[i], p.allIdle = false, false
	p.max[i] = max(p.max[i], counted)
	p.settle()
}

func (p *plainMark) control(at Micros, change func()) {
	if p.allIdle {
		if p.value != NoTime && at > p.last {
			p.value += at - p.last
		}
		p.last = at
	}
	change()
	all := true
	for _, idle := range p.idle {
		all = all && idle
	}
	if all && !p.allIdle {
		p.allIdle, p.last, p.value = true, at, p.ever
		if !p.idled {
			for i := range p.max {
				p.value = max(p.value, p.own(i))
			}
			p.idled = p.value != NoTime
		}
	}
	p.settle()
}

// TestMarkHoldsTheWatermarkOfEveryView: whatever a view's max_out_of_orderness, the mark tells what
// its watermark would be had it read everything (W1, W3, W4, W5).
func TestMarkHoldsTheWatermarkOfEveryView(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lates := []Micros{0, 3, 50}
		m := NewMark()
		var plain []*plainMark
		for _, late := range lates {
			plain = append(plain, &plainMark{late: late, advance: NoTime, ever: NoTime, value: NoTime, max: []Micros{NoTime}, idle: []bool{false}})
		}
		partitions, at, s := 1, Micros(1000), Sequence(0)
		control := func(c Control, change func(*plainMark)) {
			s++
			c.Sequence, c.AppendTime = s, at
			m.Control(&c, true)
			for _, p := range plain {
				p.control(at, func() { change(p) })
			}
		}
		control(Control{Kind: Partitions, Value: 1}, func(*plainMark) {})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, p := range plain {
					if got := m.Value.At(p.late); got != p.value || m.Ever.At(p.late) != p.ever {
						t.Fatalf("late %d: value %d, ever %d, want %d, %d", p.late, got, m.Ever.At(p.late), p.value, p.ever)
					}
				}
			},
			"events": func(t *rapid.T) {
				i := rapid.IntRange(0, partitions-1).Draw(t, "partition")
				counted := rapid.Int64Range(900, 1200).Draw(t, "counted")
				s++
				m.Events(s, at, Partition(i), 0, 1, counted)
				for _, p := range plain {
					p.event(i, counted)
				}
			},
			"idle": func(t *rapid.T) {
				i := rapid.IntRange(0, partitions-1).Draw(t, "partition")
				control(Control{Kind: Idle, Partition: Partition(i)}, func(p *plainMark) { p.idle[i] = true })
			},
			"clock": func(*rapid.T) { control(Control{Kind: Clock}, func(*plainMark) {}) },
			"advance": func(t *rapid.T) {
				to := rapid.Int64Range(900, 1300).Draw(t, "to")
				control(Control{Kind: Advance, Value: to}, func(p *plainMark) {
					p.advance = max(p.advance, to)
					if p.allIdle {
						p.value = max(p.value, to)
					}
				})
			},
			"grow": func(t *rapid.T) {
				if partitions == 4 {
					t.Skip()
				}
				partitions++
				control(Control{Kind: Partitions, Value: int64(partitions)}, func(p *plainMark) {
					p.max, p.idle = append(p.max, NoTime), append(p.idle, true)
				})
			},
			"pass": func(t *rapid.T) { at += rapid.Int64Range(0, 40).Draw(t, "time") },
		})
	})
}

func TestSizesReadBackAsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"512MB": "512MB", "1024mb": "1GB", "1.5 KiB": "1536B", "20GB": "20GB", "100": "100B"} {
		if s, err := ParseSize(text); err != nil || s.String() != want {
			t.Errorf("%s is %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "GB", "-1GB", "0", "NaN", "1e300TB", "many"} {
		if s, err := ParseSize(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}
