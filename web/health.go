package web

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/common/expfmt"

	"tidemark/storage/problem"
)

// healthz says that the process is alive.
func (a *App) healthz(c *fiber.Ctx) error { return c.JSON(fiber.Map{"status": "alive"}) }

// readyz says whether the log is open and the views have recovered.
func (a *App) readyz(c *fiber.Ctx) error {
	if a.stopped.Load() {
		return notReady("the server stops")
	}
	if err := a.opts.Ready(); err != nil {
		return notReady(err.Error())
	}
	return c.JSON(fiber.Map{"status": "ready"})
}

func notReady(why string) error {
	p := problem.New(503, "not_ready", "not ready: %s", why).WithHint("ask again in a second")
	p.RetryAfter = 1
	return p
}

// metrics shows the registered metrics in Prometheus's text format.
func (a *App) metrics(c *fiber.Ctx) error {
	families, err := a.opts.Metrics.Gather()
	if err != nil {
		return err
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	var out bytes.Buffer
	enc := expfmt.NewEncoder(&out, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	c.Set(fiber.HeaderContentType, string(format))
	return c.Send(out.Bytes())
}
