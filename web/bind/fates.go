package bind

import (
	"context"
	"slices"

	"tidemark/storage/catalog"
	"tidemark/web/auth"
	"tidemark/windows/fate"
	"tidemark/windows/runtime"
)

// OwnViews leaves of an event's fate what the views did that who asks may read.
func OwnViews(ctx context.Context, cat *catalog.Catalog, f *fate.Fate) *fate.Fate {
	who := auth.From(ctx)
	own := *f
	own.Views = slices.DeleteFunc(slices.Clone(f.Views), func(v fate.ViewFate) bool {
		e, there := cat.Lookup(v.View)
		return there && !mayRead(who, e)
	})
	return &own
}

// MayReadBeneath returns a problem when who asks may not read the streams that a view is made of: the
// view's rows are one thing, the whole events behind them another.
func MayReadBeneath(ctx context.Context, views *runtime.Service, view string) error {
	who := auth.From(ctx)
	if who.CoversAll() {
		return nil
	}
	proof, err := views.Proof(view)
	if err != nil {
		return err
	}
	for _, s := range proof.Sources {
		if err := who.May(auth.Read, s.Name); err != nil {
			return err
		}
	}
	return nil
}
