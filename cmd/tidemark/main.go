package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"tidemark/storage"
	"tidemark/storage/history"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
)

// cli is the command line; every command is a field.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run the server. Everything it keeps is under --data."`
	Demo    demoCmd    `cmd:"" help:"Run the server with a shop that sends events, views, dashboards and alerts."`
	Send    sendCmd    `cmd:"" help:"Post a file of events (NDJSON, JSON or CSV) to a stream."`
	Query   queryCmd   `cmd:"" help:"Ask history and views with SQL."`
	Tail    tailCmd    `cmd:"" help:"Follow a stream, view or alert."`
	Apply   applyCmd   `cmd:"" help:"Declare streams, views, alerts and dashboards from a YAML file."`
	Dead    deadCmd    `cmd:"" name:"dead-letters" help:"List, replay and delete what could not be used."`
	Key     keyCmd     `cmd:"" help:"Make, list and delete API keys."`
	Bench   benchCmd   `cmd:"" help:"Load generator and benchmarks."`
	Backup  backupCmd  `cmd:"" help:"Copy a running server's data."`
	Restore restoreCmd `cmd:"" help:"Make a data directory of a backup."`
	Check   checkCmd   `cmd:"" help:"Verify every checksum in a data directory."`
	Health  healthCmd  `cmd:"" name:"healthcheck" help:"Ask a server whether it is ready; exit code 0 if so."`

	Version kong.VersionFlag `help:"Print the version."`
}

// Exit codes; they are documented in docs/commands.md.
const (
	exitOK = iota
	exitError
	exitUsage
	exitInUse
	exitRefused
)

func main() {
	if history.ChildMain() {
		return
	}
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code, so that deferred work is done.
func run(args []string) int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("tidemark"),
		kong.Description("Real-time analytics in one binary: events in over HTTP, SQL views that stay current, answers out over websockets."),
		kong.UsageOnError(),
		kong.Vars{"version": version()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic(err) // the struct above is wrong
	}
	k, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
		fmt.Fprintln(os.Stderr, `run "tidemark --help" for the commands and "tidemark COMMAND --help" for one`)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
		return exitCode(err)
	}
	return exitOK
}

// exitCode says how the process ends for an error.
func exitCode(err error) int {
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, storage.ErrInUse):
		return exitInUse
	case errors.Is(err, storage.ErrRefused), errors.Is(err, kv.ErrDamaged):
		return exitRefused
	}
	return exitError
}

// usageError is a mistake on the command line or in the options.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// explain makes one line of a problem document that a server has answered.
func explain(p *problem.Problem) error {
	text := p.Detail
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return fmt.Errorf("%s [%d %s]", text, p.Status, p.Code)
}

// told explains an error if it is one that a server has answered.
func told(err error) error {
	var p *problem.Problem
	if errors.As(err, &p) {
		return explain(p)
	}
	return err
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "tidemark (unknown build)"
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			revision = " " + s.Value[:12]
		}
	}
	return "tidemark " + info.Main.Version + revision + " " + info.GoVersion
}
