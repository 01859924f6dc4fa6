package runtime_test

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/windows/runtime"
)

// sampleVersion1 is runtime.SampleEpoch as version 1 of an entry has it. It is frozen.
const sampleVersion1 = "014d05014b7b2277617465726d61726b223a22323032332d31312d31345432323a31333a32305a222c226f666673657473223a7b2273223a5b342c325d7d2c22766965775f76657273696f6e223a337d" +
	"0400000c0a036162630501000a03616263030004ffffffffffffffffff01036162640607011101780101010300020009028080808080200001040200016b0a110007030303016162636162647800000102016e0509000200c801c801c801"

func TestEntriesOfTheChangeStreamAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	want := runtime.SampleEpoch()
	old, err := hex.DecodeString(sampleVersion1)
	if err != nil {
		t.Fatal(err)
	}
	now, err := runtime.EncodeEpoch(want)
	if err != nil {
		t.Fatal(err)
	}
	for version, entry := range map[int][]byte{1: old, 2: now} {
		if int(entry[0]) != version {
			t.Errorf("version %d, not %d", entry[0], version)
		}
		got, err := runtime.DecodeEpoch(entry, want.To)
		if err != nil {
			t.Fatal(version, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("version %d: want −, got +:\n%s", version, d)
		}
		for n := range entry { // a cut one is an error, never a panic
			if _, err := runtime.DecodeEpoch(entry[:n], want.To); err == nil {
				t.Errorf("version %d, %d bytes of %d are read", version, n, len(entry))
			}
		}
	}
}
