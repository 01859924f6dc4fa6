package main

import (
	"strings"
	"testing"
)

// Small, and so no measure of anything: it runs through, and nothing acknowledged is missing after the kill.
func TestBenchRecoveryFindsEveryAcknowledgedEventAfterTheKill(t *testing.T) {
	t.Parallel()
	out, err := tidemark(t.Context(), "bench", "recovery", "--kills", "1", "--duration", "200ms", "--connections", "2", "--dir", tempDir(t)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ratio: rate of replay by rate of ingest") {
		t.Errorf("%v\n%s", err, out)
	}
}
