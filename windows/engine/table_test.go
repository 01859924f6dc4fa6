package engine

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTableFindsWhatAMapFinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var keys []string
		tb := &table{keyOf: func(slot int32) string { return keys[slot] }}
		want := map[string]int32{}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := string(rune('a' + rapid.IntRange(0, 60).Draw(t, "key")))
			slot, there := want[key]
			if got, ok := tb.get([]byte(key)); ok != there || ok && got != slot {
				t.Fatalf("%q: %d %t, want %d %t", key, got, ok, slot, there)
			}
			if there {
				tb.drop(key)
				delete(want, key)
				continue
			}
			keys = append(keys, key)
			want[key] = int32(len(keys) - 1)
			tb.put(key, want[key])
		}
		if tb.used != len(want) {
			t.Fatalf("%d keys, want %d", tb.used, len(want))
		}
	})
}
