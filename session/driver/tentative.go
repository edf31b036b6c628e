package driver

import "context"

type tentative struct{}

// Tentative returns a context whose calls may be undone after they have returned, such as
// appends in a transaction of the caller. Package session then keeps nothing in memory of
// the sessions that it reads. A driver with such transactions makes these contexts.
func Tentative(ctx context.Context) context.Context {
	return context.WithValue(ctx, tentative{}, true)
}

// IsTentative reports whether the calls with ctx may be undone.
func IsTentative(ctx context.Context) bool { return ctx.Value(tentative{}) != nil }
