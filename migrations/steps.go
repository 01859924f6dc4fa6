package migrations

import (
	"fmt"

	"tidemark/storage/kv"
)

// Step raises a directory from one format to the next.
type Step struct {
	From int
	// Why is what the new format is for, for the server's log.
	Why string
	// Do rewrites what has to be rewritten; everything is on disk when it returns. The directory is
	// locked and its store is closed.
	Do func(fs kv.FS, dir string) error
}

// steps are all steps, in order. There is none yet: format 1 is the first.
var steps []Step

// Run takes a directory from a format to the next one; it is storage's Migrate.
func Run(fs kv.FS, dir string, from int) error { return run(steps, fs, dir, from) }

func run(steps []Step, fs kv.FS, dir string, from int) error {
	for _, s := range steps {
		if s.From != from {
			continue
		}
		if err := s.Do(fs, dir); err != nil {
			return fmt.Errorf("raise %s from format %d to %d (%s): %w", dir, from, from+1, s.Why, err)
		}
		return nil
	}
	return fmt.Errorf("%s has format %d, and this program has no step from there", dir, from)
}
