package main

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// T1: verify is green for every view and alert of the demo while its shop sends events, those of the
// past that a fresh start fills in included.
func TestVerifyIsEqualForTheDemosViewsWhileEventsFlow(t *testing.T) {
	t.Parallel()
	s := &server{t: t, dir: filepath.Join(tempDir(t), "demo"), addr: freeAddress(t), log: &lockedBuffer{}, demo: true}
	s.start()
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	list, err := readDeclarations(demoFile)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the shop is open", func() error {
		if !strings.Contains(s.log.String(), "demo is running") {
			return errors.New("not yet")
		}
		return nil
	})
	rounds := 1
	if long() {
		rounds = 20
	}
	views := 0
	for range rounds {
		for _, d := range list {
			if d.section != "views" && d.section != "alerts" {
				continue
			}
			views++
			var v verdict
			s.must("POST", "/v1/views/"+d.name+"/verify?wait=55s", "", &v)
			if v.Result != "equal" || v.Events == 0 {
				t.Errorf("%s: %s %s, %d events, %+v", d.name, v.Result, v.Reason, v.Events, v.Differences)
			}
		}
	}
	if views < 8 {
		t.Errorf("%d views were verified", views)
	}
}
