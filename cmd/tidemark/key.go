package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"tidemark/storage"
	"tidemark/storage/catalog"
	"tidemark/web/auth"
)

// keyCmd makes and ends API keys.
type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make a key, or change one, and print it. The first key with --scope admin turns authentication on."`
	List   keyListCmd   `cmd:"" help:"List the keys; what they open, never the keys themselves."`
	Delete keyDeleteCmd `cmd:"" help:"End a key at once, with all that it has open."`
}

type keyCreateCmd struct {
	serverFlags `embed:""`

	Name   string   `arg:"" help:"Name of the key."`
	Scope  []string `help:"What it may do: ingest, beacon, read, alerts or admin. May be given several times."`
	Stream []string `help:"Pattern of the names it is for, such as 'sales_*' (default: all). May be given several times."`
	Origin []string `help:"Web page that may use it, such as https://shop.example. May be given several times."`
	Rate   *float64 `help:"Most requests a second (default: no limit)." placeholder:"N"`
	Rotate bool     `help:"Make a new key of a name that there is; the old one is void at once."`
	Data   string   `help:"Write into this data directory, whose server does not run. Needs no key: for the first one, or when all are lost." placeholder:"DIR"`
}

func (*keyCreateCmd) Help() string {
	return `  tidemark key create ops --scope admin
  tidemark key create shop --scope ingest --stream 'sales_*'
  tidemark key create pages --scope beacon --origin https://shop.example --rate 50 --stream visits
  tidemark key create shop --rotate

The key goes to standard output and is never shown again.`
}

// definition is what the flags ask for; what is not given is left out, and stays as it is.
func (c *keyCreateCmd) definition() auth.Definition {
	d := auth.Definition{Rate: c.Rate, Rotate: c.Rotate}
	if c.Scope != nil {
		scopes := make([]auth.Scope, len(c.Scope))
		for i, s := range c.Scope {
			scopes[i] = auth.Scope(s)
		}
		d.Scopes = &scopes
	}
	if c.Stream != nil {
		d.Streams = &c.Stream
	}
	if c.Origin != nil {
		d.Origins = &c.Origin
	}
	return d
}

func (c *keyCreateCmd) Run(ctx context.Context) error {
	var answer auth.Answer
	var err error
	if c.Data != "" {
		answer, err = c.offline()
	} else {
		answer, err = c.online(ctx)
	}
	if err != nil {
		return err
	}
	if answer.Note != "" {
		fmt.Fprintln(os.Stderr, answer.Note)
	}
	if answer.Key == "" {
		fmt.Fprintf(os.Stderr, "key %s was changed; its text is the same as before\n", answer.Name)
		return nil
	}
	fmt.Println(answer.Key)
	return nil
}

// online asks the server.
func (c *keyCreateCmd) online(ctx context.Context) (a auth.Answer, err error) {
	body, err := json.Marshal(c.definition())
	if err != nil {
		return a, err
	}
	err = c.client().call(ctx, http.MethodPut, "/v1/keys/"+c.Name, body, nil, &a)
	return a, told(err)
}

// offline writes into a data directory. Who can write there needs no key.
func (c *keyCreateCmd) offline() (a auth.Answer, err error) {
	if info, err := os.Stat(c.Data); err != nil || !info.IsDir() {
		return a, &usageError{fmt.Sprintf("--data %s: there is no such directory; the server makes it at its first start", c.Data)}
	}
	dir, err := storage.Open(c.Data, storage.Options{})
	if err != nil {
		return a, err
	}
	defer func() {
		if e := dir.Close(); err == nil {
			err = e
		}
	}()
	cat, err := catalog.Open(dir.KV)
	if err != nil {
		return a, err
	}
	keys, err := auth.Open(cat, auth.Options{})
	if err != nil {
		return a, err
	}
	a, _, err = keys.Put(c.Name, c.definition())
	return a, told(err)
}

type keyListCmd struct {
	serverFlags `embed:""`
}

func (c *keyListCmd) Run(ctx context.Context) error {
	var list struct{ Items []auth.Answer }
	if err := c.client().call(ctx, http.MethodGet, "/v1/keys", nil, nil, &list); err != nil {
		return told(err)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tID\tSCOPES\tSTREAMS\tORIGINS\tRATE\tCREATED")
	for _, k := range list.Items {
		scopes := make([]string, len(k.Scopes))
		for i, s := range k.Scopes {
			scopes[i] = string(s)
		}
		streams, rate := "*", "-"
		if len(k.Streams) > 0 {
			streams = strings.Join(k.Streams, ",")
		}
		if k.Rate > 0 {
			rate = fmt.Sprint(k.Rate)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.ID, strings.Join(scopes, ","), streams,
			strings.Join(k.Origins, ","), rate, k.Created.Format("2006-01-02 15:04"))
	}
	return w.Flush()
}

type keyDeleteCmd struct {
	serverFlags `embed:""`

	Name string `arg:"" help:"Name of the key."`
}

func (c *keyDeleteCmd) Run(ctx context.Context) error {
	return told(c.client().call(ctx, http.MethodDelete, "/v1/keys/"+c.Name, nil, nil, nil))
}
