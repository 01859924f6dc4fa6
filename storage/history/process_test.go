package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemark/storage/problem"
)

// kill9 ends the child that serves, if one does.
func kill9(h *History) {
	if s := h.Status(); s.Running {
		_ = syscall.Kill(s.PID, syscall.SIGKILL)
	}
}

func TestSignalsOfATerminalLeaveTheChildToItsParent(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	pid := h.Status().PID
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Query(t.Context(), Query{SQL: "SELECT 1 AS one"}, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
	if s := h.Status(); s.PID != pid || !s.Running {
		t.Errorf("the child has ended: %+v", s)
	}
}

// TestChildKilledInLoadsLosesAndDoublesNothing: the caller sees no error, each row is there once.
func TestChildKilledInLoadsLosesAndDoublesNothing(t *testing.T) { // I2
	t.Parallel()
	h := start(t, t.TempDir())
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Add(1)
	go func() {
		defer killer.Done()
		var pid int
		var loads int64
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			// Each child takes in at least one batch, so that the loads get on.
			if s := h.Status(); s.Running && s.PID != pid && s.Loads > loads {
				pid, loads = s.PID, s.Loads
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}()
	const batches, rows = 30, 200
	from := ""
	for i := range batches {
		var cells [][]string
		for k := range rows {
			cells = append(cells, []string{fmt.Sprint(i*rows + k)})
		}
		to := fmt.Sprintf("p%d", i)
		spec := "a BIGINT"
		if i > batches/2 {
			spec = "a BIGINT, late VARCHAR" // DDL in the middle
			for k := range cells {
				cells[k] = append(cells[k], `"x"`)
			}
		}
		apply(t, h, batch(t, spec, from, to, cells...))
		from = to
	}
	close(stop)
	killer.Wait()
	expect(t, h, "SELECT count(*) AS n, count(DISTINCT a) AS d, min(a) AS lo, max(a) AS hi, count(late) AS l FROM s",
		fmt.Sprintf(`{"n":%d,"d":%d,"lo":0,"hi":%d,"l":%d}`, batches*rows, batches*rows, batches*rows-1, (batches/2-1)*rows))
	s := h.Status()
	if s.Restarts < 5 || s.SetAside != "" {
		t.Errorf("status %+v", s)
	}
}

func TestChildKilledInQueriesIsNotSeen(t *testing.T) { // I4
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "a BIGINT", "", "p", []string{"1"}))
	for range 3 {
		done := make(chan struct{})
		var out bytes.Buffer
		var err error
		go func() {
			defer close(done)
			_, err = h.Query(bg, Query{SQL: "SELECT count(*) AS n FROM range(1000000) a, range(20) b, s WHERE hash(a.range + b.range) <> 1", Format: FormatNDJSON}, &out)
		}()
		for h.Status().Active == 0 {
			runtime.Gosched()
		}
		kill9(h)
		<-done
		if err != nil || out.String() != "{\"n\":20000000}\n" {
			t.Errorf("got %v, %s", err, out.String())
		}
	}
}

func TestChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	h, err := Start(bg, testOptions(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	pid := h.Status().PID
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
	if _, err := h.Query(bg, Query{SQL: "SELECT 1"}, &bytes.Buffer{}); problem.From(err).Status != 503 {
		t.Errorf("a query after the end gives %v", err)
	}
	if err := h.Apply(bg, batch(t, "a BIGINT", "", "p")); err == nil {
		t.Error("a load after the end is no error")
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	t.Parallel()
	h, err := Start(bg, testOptions(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.Query(bg, Query{SQL: endless[0]}, &bytes.Buffer{})
		done <- err
	}()
	for h.Status().Active == 0 {
		runtime.Gosched()
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the query gave an answer")
	}
}

// TestFileThatWillNotOpenIsSetAside: damage is named, the positions start from nothing, and what
// is loaded again is all there.
func TestFileThatWillNotOpenIsSetAside(t *testing.T) { // I3
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
	}{
		{"zero bytes behind the log", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, walName), func(b []byte) []byte { return append(b, make([]byte, 4096)...) })
		}},
		{"a flipped byte in the log", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, walName), func(b []byte) []byte { b[len(b)/2] ^= 0x40; return b })
		}},
		{"a flipped byte in the file's header", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, fileName), func(b []byte) []byte { b[4096+16] ^= 1; b[8192+16] ^= 1; return b })
		}},
		{"no DuckDB file", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, fileName), func([]byte) []byte { return []byte(strings.Repeat("not a database ", 1000)) })
		}},
		{"another's DuckDB file", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, fileName), func([]byte) []byte {
				return nil
			})
			_ = os.Remove(filepath.Join(dir, walName))
			if err := os.WriteFile(filepath.Join(dir, fileName), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			h := start(t, dir)
			one := batch(t, "a BIGINT, t VARCHAR", "", "p1", []string{"1", `"x"`})
			apply(t, h, one)
			apply(t, h, batch(t, "a BIGINT, t VARCHAR", "p1", "p2", []string{"2", `"y"`}))
			// Killed, so that the log is not folded into the file.
			pid := h.Status().PID
			_ = syscall.Kill(pid, syscall.SIGKILL)
			saved := map[string][]byte{}
			for _, name := range []string{fileName, walName} {
				b, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				saved[name] = b
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			for name, b := range saved {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c.damage(t, dir)
			h = start(t, dir)
			s := h.Status()
			if s.SetAside == "" || s.Reason == "" {
				t.Fatalf("status %+v, position %q", s, position(t, h, one))
			}
			if _, err := os.Stat(filepath.Join(dir, s.SetAside)); err != nil {
				t.Error(err)
			}
			if got := position(t, h, one); got != "" {
				t.Errorf("position %q", got)
			}
			apply(t, h, one)
			expect(t, h, "SELECT * FROM s", `{"a":1,"t":"x"}`)
		})
	}
}

// change rewrites a file.
func change(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSocketIsOursAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir)
	info, err := os.Stat(h.socket)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	h = start(t, deep)
	expect(t, h, "SELECT 1 AS n", `{"n":1}`)
	folder := filepath.Dir(h.socket)
	if folder == deep || len(h.socket) > 107 {
		t.Errorf("socket %s", h.socket)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestOddPathsAreOnlyPaths(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b?c=d&%41#ü")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h := start(t, dir)
	apply(t, h, batch(t, "a BIGINT", "", "p", []string{"1"}))
	if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
		t.Error(err)
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	if _, err := Start(bg, testOptions(filepath.Join(t.TempDir(), "not there"))); err == nil {
		t.Error("a missing directory is no error")
	}
}

func TestChildIsFencedIn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || raceDetector {
		return // other systems have no such fence
	}
	h := start(t, t.TempDir())
	proc := fmt.Sprintf("/proc/%d/", h.Status().PID)
	limits, err := os.ReadFile(proc + "limits")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(limits), "\n") {
		if f := strings.Fields(line); strings.HasPrefix(line, "Max address space") && f[3] != fmt.Sprint(256<<20+addressSpaceMargin) ||
			strings.HasPrefix(line, "Max core file size") && f[4] != "0" {
			t.Errorf("limit: %s", line)
		}
	}
	if env, err := os.ReadFile(proc + "environ"); err != nil || len(env) != 0 {
		t.Errorf("environment %q, %v", env, err)
	}
	if adj, err := os.ReadFile(proc + "oom_score_adj"); err != nil || strings.TrimSpace(string(adj)) != "1000" {
		t.Errorf("oom_score_adj %q, %v", adj, err)
	}
	for _, s := range []string{"SELECT current_setting('memory_limit') AS m, current_setting('threads') AS t, current_setting('enable_external_access') AS e, current_setting('lock_configuration') AS l, current_setting('temp_directory') AS d"} {
		expect(t, h, s, `{"m":"256.0 MiB","t":1,"e":false,"l":true,"d":""}`)
	}
}
