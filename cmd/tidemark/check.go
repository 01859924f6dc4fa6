package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"

	"tidemark/storage"
	"tidemark/storage/kv"
	"tidemark/stream/pebblelog"
)

type checkCmd struct {
	Dir string `arg:"" help:"Data directory; no server may have it open." placeholder:"DIR"`
}

func (*checkCmd) Help() string {
	return `  tidemark check ./tidemark-data

Verifies every checksum in a data directory without changing it, and that the log ends where its
witness saw it end. Damage is named with stream, partition and offset; the exit code is 4 then.`
}

func (c *checkCmd) Run() error { return check(c.Dir, os.Stdout) }

// check verifies a data directory and writes what it finds.
func check(dir string, out io.Writer) error {
	damages := 0
	report := func(what string) {
		damages++
		fmt.Fprintln(out, "damaged:", what)
	}
	tables, err := checkFiles(dir, report)
	if err != nil {
		return err
	}
	// Pebble ends the goroutine that meets something it can't go on from: it is not this one.
	type result struct {
		checked pebblelog.Checked
		err     error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errors.New("the store can't be read on")}
		defer func() { done <- r }()
		r.checked, r.err = checkStore(dir, report)
	}()
	r := <-done
	switch {
	case r.err != nil && damages == 0, errors.Is(r.err, storage.ErrInUse), errors.Is(r.err, storage.ErrRefused):
		return r.err
	case r.err != nil:
		report(r.err.Error())
	}
	fmt.Fprintf(out, "%d tables; %d streams, %d partitions, %d batches with %d events, %d other records\n",
		tables, r.checked.Streams, r.checked.Partitions, r.checked.Batches, r.checked.Events, r.checked.Records)
	if damages > 0 {
		return fmt.Errorf("%s: %w: %d damages are named above: restore a backup, or go on without what is missing with --accept-loss", dir, storage.ErrRefused, damages)
	}
	fmt.Fprintln(out, "no damage")
	return nil
}

// checkFiles verifies the tables file by file, before a store that would stumble over them is opened.
func checkFiles(dir string, report func(string)) (int, error) {
	lock, err := storage.Take(dir, kv.Disk)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Close() }()
	return kv.CheckTables(kv.Disk, kv.Disk.PathJoin(dir, "kv"), func(file string, err error) {
		report(file + ": " + err.Error())
	})
}

func checkStore(dir string, report func(string)) (pebblelog.Checked, error) {
	quiet := slog.New(slog.DiscardHandler)
	d, err := storage.OpenReadOnly(dir, storage.Options{Logger: quiet, Store: kv.Options{Fatal: func(sentence string) {
		report(sentence)
		runtime.Goexit()
	}}})
	if errors.Is(err, storage.ErrInUse) || errors.Is(err, storage.ErrRefused) {
		return pebblelog.Checked{}, err
	}
	if err != nil {
		report(err.Error())
		return pebblelog.Checked{}, nil
	}
	if err := d.KV.Check(); err != nil {
		report(err.Error())
	}
	checked, err := pebblelog.Check(d.KV, d.File("witness"), report)
	return checked, errors.Join(err, d.Close())
}
