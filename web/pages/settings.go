package pages

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/web/auth"
	"tidemark/web/ui"
)

// settings shows keys and retention.
func (d Deps) settings(c *fiber.Ctx) (content, error) {
	return d.settingsPage(c, strings.Clone(c.Query("kept")), nil, ui.Kept{})
}

// settingsPage is the page after a change: of which stream, or what is wrong with what was asked.
func (d Deps) settingsPage(c *fiber.Ctx, changed string, wrong *problem.Problem, asked ui.Kept) (content, error) {
	s := ui.Settings{AuthOn: d.Keys.On(), MayKeys: d.Keys != nil && auth.Of(c).Has(auth.Admin), MayStreams: auth.Of(c).Has(auth.Admin)}
	if d.Keys != nil {
		s.CSRF, _ = d.Keys.Session(c)
	}
	if s.MayKeys {
		for _, k := range d.Keys.List() {
			line := ui.KeyLine{Name: k.Name, Streams: "all", Origins: "–", Rate: "no limit", Created: ago(k.Created)}
			scopes := make([]string, len(k.Scopes))
			for i, scope := range k.Scopes {
				scopes[i] = string(scope)
			}
			line.Scopes = strings.Join(scopes, ", ")
			if len(k.Streams) > 0 {
				line.Streams = strings.Join(k.Streams, ", ")
			}
			if len(k.Origins) > 0 {
				line.Origins = strings.Join(k.Origins, ", ")
			}
			if k.Rate > 0 {
				line.Rate = strconv.FormatFloat(k.Rate, 'f', -1, 64)
			}
			s.Keys = append(s.Keys, line)
		}
	}
	for _, one := range d.Streams.List() {
		line := ui.Kept{Stream: one.Name, Holds: "–", Remembers: fmt.Sprint(one.Config.DedupeWindow), Disorder: fmt.Sprint(one.Config.MaxOutOfOrderness)}
		if r := one.Config.Retention; r != nil {
			if r.Age != nil {
				line.Age = fmt.Sprint(*r.Age)
			}
			if r.Bytes > 0 {
				line.Bytes = r.Bytes.String()
			}
		}
		if st, err := d.Log.Stats(one.ID); err == nil {
			line.Holds = bytes(size(st))
		}
		if one.Name == changed && wrong == nil {
			line.Said = "Changed. What is older goes within a minute."
		}
		if wrong != nil && one.Name == asked.Stream {
			line.Age, line.Bytes, line.Wrong = asked.Age, asked.Bytes, strings.TrimSpace(wrong.Detail+" "+wrong.Hint)
		}
		s.Streams = append(s.Streams, line)
	}
	return content{title: "Settings", section: "settings", draw: func(string) templ.Component { return ui.SettingsPage(s) }}, nil
}

// retention takes the form that says how long a stream's events are kept: the same definition as that
// of the API, with the same checks.
func (d Deps) retention(c *fiber.Ctx) error {
	asked := ui.Kept{Stream: strings.Clone(c.Params("name")), Age: strings.TrimSpace(strings.Clone(c.FormValue("age"))), Bytes: strings.TrimSpace(strings.Clone(c.FormValue("bytes")))}
	if _, err := d.Streams.Get(asked.Stream); err != nil {
		return err
	}
	kept := map[string]any{}
	if asked.Age != "" {
		kept["age"] = asked.Age
	}
	if asked.Bytes != "" {
		kept["bytes"] = asked.Bytes
	}
	body, err := json.Marshal(map[string]any{"retention": kept})
	if err != nil {
		return err
	}
	config, err := stream.ParseConfig(body)
	if err == nil {
		_, _, err = d.Streams.Put(c.UserContext(), asked.Stream, config)
	}
	if err == nil {
		return c.Redirect("/settings?kept="+url.QueryEscape(asked.Stream)+"#kept-"+asked.Stream, fiber.StatusSeeOther)
	}
	wrong := problem.From(err)
	if wrong.Status >= 500 {
		return err
	}
	page, err := d.settingsPage(c, "", wrong, asked)
	if err != nil {
		return err
	}
	c.Status(fiber.StatusUnprocessableEntity)
	return d.send(c, page)
}
