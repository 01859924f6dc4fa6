package group

import (
	"cmp"
	"slices"
)

// share says which member each partition should be with: as evenly as possible, and with as few moves
// as that takes. holders are the present holders by partition ("" for none); a holder that is no
// member any more counts as none. The answer depends on the arguments alone, and members in any order
// give the same: so a partition that is being drained has one destination, however often it is asked.
func share(holders, members []string) []string {
	want := make([]string, len(holders))
	if len(members) == 0 {
		return want
	}
	held := make(map[string]int, len(members))
	for _, m := range members {
		held[m] = 0
	}
	for _, h := range holders {
		if _, ok := held[h]; ok {
			held[h]++
		}
	}
	// Who holds most keeps one more, where it does not come out even.
	order := slices.Clone(members)
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b)) })
	least, more := len(holders)/len(members), len(holders)%len(members)
	room := make(map[string]int, len(members))
	for i, m := range order {
		room[m] = least
		if i < more {
			room[m]++
		}
	}
	for p, h := range holders {
		if room[h] > 0 {
			want[p] = h
			room[h]--
		}
	}
	next := 0
	for p := range want {
		if want[p] != "" {
			continue
		}
		for room[order[next]] == 0 {
			next++
		}
		want[p] = order[next]
		room[order[next]]--
	}
	return want
}
