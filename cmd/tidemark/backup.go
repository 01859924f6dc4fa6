package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage"
	"tidemark/storage/backup"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream/pebblelog"
)

type backupCmd struct {
	serverFlags `embed:""`

	Dir string `arg:"" help:"New folder for the backup." placeholder:"DIR"`
}

func (*backupCmd) Help() string {
	return `  tidemark backup ./backups/2024-01-15

Copies a running server's data as it is at one instant, without stopping it. The copy comes over
HTTP, so the server may be elsewhere and is never told a path. "tidemark restore" makes a data
directory of it.`
}

func (c *backupCmd) Run(ctx context.Context) error {
	cl := c.client()
	cl.http = &http.Client{} // a large copy may take long
	resp, err := cl.do(ctx, "POST", "/v1/backup", nil, nil)
	if p := (*problem.Problem)(nil); errors.As(err, &p) {
		return explain(p)
	}
	if err != nil {
		return err
	}
	m, err := backup.Read(resp.Body, c.Dir)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	return printManifest(c.Dir, m)
}

type restoreCmd struct {
	Backup string `arg:"" help:"Folder of the backup." placeholder:"BACKUP"`
	Dir    string `arg:"" help:"New data directory; no other is overwritten." placeholder:"DIR"`
}

func (*restoreCmd) Help() string {
	return `  tidemark restore ./backups/2024-01-15 ./tidemark-data

Makes a data directory of a backup after every file's SHA-256 was compared. From its end on the
restored log is another history: clients that have read further are told so when they resume.`
}

func (c *restoreCmd) Run() error {
	m, err := backup.Restore(c.Backup, c.Dir, func(d *storage.Dir) error {
		_, err := pebblelog.Rename(d.KV)
		return err
	})
	if err != nil {
		return err
	}
	return printManifest(c.Dir, m)
}

// printManifest says what was copied, and where each partition ends in it.
func printManifest(dir string, m backup.Manifest) error {
	bytes := int64(0)
	for _, f := range m.Files {
		bytes += f.Bytes
	}
	var ends pebblelog.Ends
	if err := json.Unmarshal(m.Log, &ends); err != nil {
		return fmt.Errorf("the manifest does not tell where the log ends: %w", err)
	}
	fmt.Fprintf(os.Stdout, "%s: %d files, %d bytes, as of %s, sequence %d\n", dir, len(m.Files), bytes, m.MadeAt.Format(time.RFC3339), ends.Sequence)
	for _, s := range ends.Streams {
		fmt.Fprintf(os.Stdout, "  %s: %d events accepted, partitions end at", s.Name, s.Accepted)
		for _, p := range s.Partitions {
			fmt.Fprintf(os.Stdout, " %d", p.Next)
		}
		fmt.Fprintln(os.Stdout)
	}
	return nil
}

// unhurried moves the deadline of a connection on as long as its client takes what is written: a
// large copy may take longer than any other answer.
type unhurried struct {
	w     io.Writer
	conn  net.Conn
	moved time.Time
}

func (u *unhurried) Write(p []byte) (int, error) {
	if now := time.Now(); now.Sub(u.moved) > time.Second {
		u.moved = now
		if err := u.conn.SetWriteDeadline(now.Add(time.Minute)); err != nil {
			return 0, err
		}
	}
	return u.w.Write(p)
}

// backups answers POST /v1/backup with an archive of the data directory. It takes no path: what it
// needs on the way lies under the directory itself.
type backups struct {
	dir     *storage.Dir
	logger  *slog.Logger
	running sync.Mutex
}

func (b *backups) mount(r fiber.Router) { r.Post("/v1/backup", b.post) }

func (b *backups) post(c *fiber.Ctx) error {
	if !b.running.TryLock() {
		return problem.New(409, "backup_running", "another backup is being made").WithHint("wait until it has ended")
	}
	c.Set(fiber.HeaderContentType, "application/x-tar")
	c.Set(fiber.HeaderCacheControl, "no-store")
	conn := c.Context().Conn()
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer b.running.Unlock()
		// An archive that ends early has no manifest, so the client knows of every failure.
		defer func() {
			if r := recover(); r != nil {
				b.logger.Error("a backup panicked", "err", r)
			}
		}()
		err := backup.Write(b.dir, &unhurried{w: w, conn: conn}, time.Now(), func(s *kv.Store) (any, error) { return pebblelog.EndsOf(s) })
		if err = errors.Join(err, w.Flush()); err != nil {
			b.logger.Error("a backup did not end", "err", err)
		}
	})
	return nil
}
