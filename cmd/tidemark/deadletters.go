package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"text/tabwriter"
)

type deadCmd struct {
	serverFlags
	Stream string `arg:"" help:"The stream."`
	Origin string `help:"Only those of ingest, or of groups." enum:",ingest,group" default:""`
	Group  string `help:"Only those of this consumer group."`
	Replay string `help:"Try the one with this id again." placeholder:"ID"`
	With   string `help:"With --replay: the corrected event; - reads it from standard input." placeholder:"JSON"`
	Delete string `help:"Throw the one with this id away." placeholder:"ID"`
	JSON   bool   `name:"json" help:"Print the list as JSON, a dead letter a line."`
}

func (*deadCmd) Help() string {
	return `  tidemark dead-letters checkouts
  tidemark dead-letters checkouts --replay 12 --with '{"ts":"2024-01-15T10:00:00Z","amount":5}'
  tidemark dead-letters checkouts --group fraud_desk --json

One of ingest is appended when it is replayed; one of a consumer group is given to that group only.`
}

// deadLetter is one of the server's list.
type deadLetter struct {
	ID, Origin, Group, Code, Reason, Raw string
	FirstSeen                            string `json:"first_seen"`
	Attempts                             int
}

func (c *deadCmd) Run(ctx context.Context) error {
	base := "/v1/streams/" + url.PathEscape(c.Stream) + "/dead_letters"
	switch {
	case c.With != "" && c.Replay == "":
		return &usageError{"--with goes with --replay ID"}
	case c.Replay != "" && c.Delete != "":
		return &usageError{"--replay and --delete are two things: give one of them"}
	case c.Replay != "":
		return c.replay(ctx, base)
	case c.Delete != "":
		return told(c.client().call(ctx, "DELETE", base+"/"+url.PathEscape(c.Delete), nil, nil, nil))
	}
	return told(c.list(ctx, base, os.Stdout))
}

func (c *deadCmd) replay(ctx context.Context, base string) error {
	event := []byte(c.With)
	if c.With == "-" {
		var err error
		if event, err = io.ReadAll(os.Stdin); err != nil {
			return err
		}
	}
	var answer struct {
		Group    string
		Delivery string
		Appended []struct {
			Partition int
			First     int64 `json:"first_offset"`
		}
		Duplicates int
	}
	if err := c.client().call(ctx, "POST", base+"/"+url.PathEscape(c.Replay)+"/replay", event, nil, &answer); err != nil {
		return told(err)
	}
	switch {
	case answer.Group != "":
		fmt.Printf("given to group %s again: %s\n", answer.Group, answer.Delivery)
	case len(answer.Appended) > 0:
		fmt.Printf("appended at partition %d, offset %d\n", answer.Appended[0].Partition, answer.Appended[0].First)
	default:
		fmt.Println("it was a duplicate of an event that is there; the dead letter is gone")
	}
	return nil
}

// list prints all pages.
func (c *deadCmd) list(ctx context.Context, base string, w io.Writer) error {
	q := url.Values{"limit": {"1000"}}
	if c.Origin != "" {
		q.Set("origin", c.Origin)
	}
	if c.Group != "" {
		q.Set("group", c.Group)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(t, "ID\tORIGIN\tATTEMPTS\tFIRST SEEN\tCODE\tREASON\tEVENT")
	}
	for {
		var page struct {
			Items []json.RawMessage
			Next  *string
		}
		if err := c.client().call(ctx, "GET", base+"?"+q.Encode(), nil, nil, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			if c.JSON {
				var line bytes.Buffer
				if err := json.Compact(&line, item); err != nil {
					return err
				}
				fmt.Fprintln(w, line.String())
				continue
			}
			var d deadLetter
			if err := json.Unmarshal(item, &d); err != nil {
				return err
			}
			origin := d.Origin
			if d.Group != "" {
				origin += " " + d.Group
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", d.ID, origin, d.Attempts, d.FirstSeen, d.Code, oneLine(d.Reason, 100), oneLine(d.Raw, 100))
		}
		if page.Next == nil {
			return t.Flush()
		}
		q.Set("cursor", *page.Next)
	}
}

// oneLine is a text as a terminal may show it, cut after so many letters.
func oneLine(s string, most int) string {
	letters := []rune(s)
	cut := ""
	if len(letters) > most {
		letters, cut = letters[:most], "…"
	}
	for i, r := range letters {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			letters[i] = '·'
		}
	}
	return string(letters) + cut
}
