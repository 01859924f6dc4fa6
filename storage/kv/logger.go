package kv

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	dto "github.com/prometheus/client_model/go"
)

// logger passes on what Pebble reports. Infos are of interest to developers only.
type logger struct {
	log   *slog.Logger
	dir   string
	fatal func(string)
}

func (l logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("store", "report", fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) {
	l.log.Error("store", "err", fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble can't go on; it must not return.
func (l logger) Fatalf(format string, args ...any) {
	sentence := fmt.Sprintf("the store in %s can't go on: %s: see that its disk is healthy and has space, run \"tidemark check\" on the data directory, and start again",
		l.dir, fmt.Sprintf(format, args...))
	l.fatal(sentence)
	panic(sentence)
}

func endProcess(sentence string) {
	fmt.Fprintln(os.Stderr, "tidemark: "+sentence)
	os.Exit(1)
}

// fsyncs counts the fsyncs of the write-ahead log.
func fsyncs(m *pebble.Metrics) uint64 {
	if m.LogWriter.FsyncLatency == nil {
		return 0
	}
	var d dto.Metric
	if m.LogWriter.FsyncLatency.Write(&d) != nil || d.Histogram == nil {
		return 0
	}
	return d.Histogram.GetSampleCount()
}
