package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

// serverOptions are the options of serve and demo as flags. A flag that is not given is nil: then
// the environment, the file and the default decide, in this order.
type serverOptions struct {
	Config         string  `help:"YAML file of options; DIR/tidemark.yaml when it exists." placeholder:"FILE"`
	PrintConfig    bool    `help:"Print each option with its value and where it comes from, and stop."`
	Data           *string `help:"Directory for everything that is kept (default ./tidemark-data; demo: ./tidemark-demo)." placeholder:"DIR"`
	Listen         *string `help:"Address to listen on (default 127.0.0.1:8080)." placeholder:"ADDR"`
	LogLevel       *string `help:"debug, info, warn or error (default info)." placeholder:"LEVEL"`
	LogFormat      *string `help:"text or json (default: text on a terminal)." placeholder:"FORMAT"`
	Memory         *string `help:"Memory to share out, such as 4GB (default half of RAM)." placeholder:"SIZE"`
	HistoryMemory  *string `help:"Memory for history's DuckDB (default a quarter of RAM, at most 4GB)." placeholder:"SIZE"`
	HistoryThreads *string `help:"Threads for history's DuckDB (default half the cores)." placeholder:"N"`
	MinFree        *string `help:"Free disk space below which writes are refused (default the larger of 512MB and 5% of the disk)." placeholder:"SIZE"`
	TrustedProxies *string `help:"Addresses or networks of proxies whose X-Forwarded-Proto and -Host are believed, separated by commas." placeholder:"LIST"`
	TLSCert        *string `name:"tls-cert" help:"Certificate chain in PEM; with --tls-key the server speaks HTTPS." placeholder:"FILE"`
	TLSKey         *string `name:"tls-key" help:"Its private key in PEM." placeholder:"FILE"`
	AutoCreate     *bool   `help:"Create a stream by its first event (default true)." negatable:""`
	AcceptLoss     *bool   `help:"Go on with a log that is shorter than it was, without what is missing (default false: read only)." negatable:""`
}

// options are the settings of a server, from all sources together.
type options struct {
	Data, Listen          string
	LogLevel              slog.Level
	LogFormat             string
	Memory, HistoryMemory int64
	HistoryThreads        int
	MinFree               int64 // 0: the larger of 512 MB and 5 % of the disk
	AutoCreate            bool
	TrustedProxies        []string
	TLSCert, TLSKey       string
	AcceptLoss            bool
}

// optionNames are the names in a file; TIDEMARK_LOG_LEVEL is log-level in the environment.
var optionNames = []string{"data", "listen", "log-level", "log-format", "memory", "history-memory", "history-threads", "min-free", "auto-create", "trusted-proxies", "tls-cert", "tls-key", "accept-loss"}

// given are the flags that stand on the command line.
func (o *serverOptions) given() map[string]any {
	m := map[string]any{}
	for name, p := range map[string]*string{
		"data": o.Data, "listen": o.Listen, "log-level": o.LogLevel, "log-format": o.LogFormat, "memory": o.Memory,
		"history-memory": o.HistoryMemory, "history-threads": o.HistoryThreads, "min-free": o.MinFree,
		"trusted-proxies": o.TrustedProxies, "tls-cert": o.TLSCert, "tls-key": o.TLSKey,
	} {
		if p != nil {
			m[name] = *p
		}
	}
	if o.AutoCreate != nil {
		m["auto-create"] = *o.AutoCreate
	}
	if o.AcceptLoss != nil {
		m["accept-loss"] = *o.AcceptLoss
	}
	return m
}

// environment are the options in TIDEMARK_* variables.
func environment(environ []string) map[string]any {
	m := map[string]any{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		name, ours := strings.CutPrefix(name, "TIDEMARK_")
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if ours && slices.Contains(optionNames, name) {
			m[name] = value
		}
	}
	return m
}

// load merges the sources of options. dataDefault is the data directory when none is named.
func (o *serverOptions) load(dataDefault string, environ []string) (options, map[string]string, error) {
	env, flags := environment(environ), o.given()
	cores := runtime.NumCPU()
	ram := totalMemory()
	defaults := map[string]any{
		"data": dataDefault, "listen": "127.0.0.1:8080", "log-level": "info", "log-format": defaultLogFormat(),
		"memory": strconv.FormatInt(ram/2, 10), "history-memory": strconv.FormatInt(min(ram/4, 4<<30), 10),
		"history-threads": strconv.Itoa(max(1, cores/2)), "min-free": "0", "auto-create": true, "trusted-proxies": "", "tls-cert": "", "tls-key": "", "accept-loss": false,
	}
	file, path, err := o.file(dataDefault, env, flags)
	if err != nil {
		return options{}, nil, err
	}
	k := koanf.New("\x00") // names have no parts
	from := map[string]string{}
	for _, source := range []struct {
		name   string
		values map[string]any
	}{{"default", defaults}, {path, file}, {"environment", env}, {"flag", flags}} {
		if err := k.Load(confmap.Provider(source.values, "\x00"), nil); err != nil {
			return options{}, nil, err
		}
		for name := range source.values {
			from[name] = source.name
		}
	}
	out, err := parseOptions(k)
	return out, from, err
}

// file reads the YAML file of options; unknown names in it are errors.
func (o *serverOptions) file(dataDefault string, env, flags map[string]any) (map[string]any, string, error) {
	path := o.Config
	if path == "" {
		dir := dataDefault
		for _, source := range []map[string]any{env, flags} {
			if d, ok := source["data"].(string); ok {
				dir = d
			}
		}
		path = filepath.Join(dir, "tidemark.yaml")
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, "", nil
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	k := koanf.New("\x00")
	if err := k.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
		return nil, "", &usageError{fmt.Sprintf("%s: %v", path, err)}
	}
	for name := range k.All() {
		if !slices.Contains(optionNames, name) {
			return nil, "", &usageError{fmt.Sprintf("%s: unknown option %q; the options are %s", path, name, strings.Join(optionNames, ", "))}
		}
	}
	return k.All(), path, nil
}

func parseOptions(k *koanf.Koanf) (options, error) {
	var wrong []string
	fail := func(name, format string, args ...any) {
		wrong = append(wrong, "--"+name+": "+fmt.Sprintf(format, args...))
	}
	size := func(name string) int64 {
		n, err := parseSize(k.String(name))
		if err != nil {
			fail(name, "%v", err)
		}
		return n
	}
	o := options{
		Data: k.String("data"), Listen: k.String("listen"), LogFormat: k.String("log-format"),
		Memory: size("memory"), HistoryMemory: size("history-memory"), MinFree: size("min-free"),
	}
	if err := o.LogLevel.UnmarshalText([]byte(k.String("log-level"))); err != nil {
		fail("log-level", "%q is none of debug, info, warn, error", k.String("log-level"))
	}
	if o.LogFormat != "text" && o.LogFormat != "json" {
		fail("log-format", "%q is neither text nor json", o.LogFormat)
	}
	n, err := strconv.Atoi(k.String("history-threads"))
	if err != nil || n < 1 {
		fail("history-threads", "%q is no number from 1 on", k.String("history-threads"))
	}
	o.HistoryThreads = n
	if o.AutoCreate, err = strconv.ParseBool(k.String("auto-create")); err != nil {
		fail("auto-create", "%q is neither true nor false", k.String("auto-create"))
	}
	if o.AcceptLoss, err = strconv.ParseBool(k.String("accept-loss")); err != nil {
		fail("accept-loss", "%q is neither true nor false", k.String("accept-loss"))
	}
	o.TLSCert, o.TLSKey = k.String("tls-cert"), k.String("tls-key")
	if (o.TLSCert == "") != (o.TLSKey == "") {
		fail("tls-cert", "certificate and key go together: give --tls-cert and --tls-key")
	}
	for proxy := range strings.SplitSeq(k.String("trusted-proxies"), ",") {
		if proxy = strings.TrimSpace(proxy); proxy == "" {
			continue
		}
		if _, _, err := net.ParseCIDR(proxy); err != nil && net.ParseIP(proxy) == nil {
			fail("trusted-proxies", "%q is no address or network such as 10.0.0.5 or 10.0.0.0/8", proxy)
		}
		o.TrustedProxies = append(o.TrustedProxies, proxy)
	}
	if o.Data == "" {
		fail("data", "a directory is missing")
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		fail("listen", "%q is no address such as 127.0.0.1:8080", o.Listen)
	}
	if o.HistoryMemory < 64<<20 {
		fail("history-memory", "at least 64MB are needed")
	}
	if len(wrong) > 0 {
		return o, &usageError{strings.Join(wrong, "; ")}
	}
	return o, nil
}

var sizeUnits = []struct {
	suffix string
	factor float64
}{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}, {"", 1}}

// parseSize reads "512MB", "512MiB", which is the same, or a number of bytes.
func parseSize(text string) (int64, error) {
	t := strings.ReplaceAll(strings.ToUpper(strings.TrimSpace(text)), "IB", "B")
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || n < 0 || n*u.factor > math.MaxInt64/2 {
			return 0, fmt.Errorf("%q is no size such as 512MB or 4GB", text)
		}
		return int64(n * u.factor), nil
	}
	return 0, fmt.Errorf("%q is no size such as 512MB or 4GB", text)
}

// print shows each option with its value and its source.
func (o options) print(w io.Writer, from map[string]string) {
	values := map[string]any{
		"data": o.Data, "listen": o.Listen, "log-level": strings.ToLower(o.LogLevel.String()), "log-format": o.LogFormat,
		"memory": o.Memory, "history-memory": o.HistoryMemory, "history-threads": o.HistoryThreads, "min-free": o.MinFree, "auto-create": o.AutoCreate,
		"trusted-proxies": strings.Join(o.TrustedProxies, ","), "tls-cert": o.TLSCert, "tls-key": o.TLSKey,
		"accept-loss": o.AcceptLoss,
	}
	for _, name := range optionNames {
		source := from[name]
		if name == "min-free" && o.MinFree == 0 {
			source += ": the larger of 512 MB and 5 % of the disk"
		}
		fmt.Fprintf(w, "%-16s %-28v # %s\n", name+":", values[name], source)
	}
}

func defaultLogFormat() string {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return "text"
	}
	return "json"
}

// totalMemory is the machine's RAM in bytes, or 4 GiB where that can't be found out.
func totalMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			var kb int64
			if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kb); err == nil {
				return kb << 10
			}
		}
	}
	return 4 << 30
}
