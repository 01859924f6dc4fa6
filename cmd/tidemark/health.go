package main

import (
	"context"
	"time"
)

type healthCmd struct {
	serverFlags
}

func (c *healthCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return c.client().call(ctx, "GET", "/readyz", nil, nil, nil)
}
