package session

import (
	"context"
	"maps"

	"github.com/convolog/convolog/session/driver"
)

// Usage is what answers have cost, by the model that they name, in tokens as the
// providers have reported them. Rewound answers count, and so do cut ones.
type Usage map[string]driver.Usage

// Add adds another usage.
func (u Usage) Add(other Usage) {
	for model, more := range other {
		u[model] = u[model].Plus(more)
	}
}

// Cost is the sum of what price says of each model: in any currency, since the
// library knows no prices.
func (u Usage) Cost(price func(model string, u driver.Usage) float64) (sum float64) {
	for model, of := range u {
		sum += price(model, of)
	}
	return sum
}

// Usage returns what the answers of the session have cost. Its cost does not
// depend on the length of the session, but for the first time after its index was
// lost.
func (s *Session) Usage(ctx context.Context) (u Usage, err error) {
	info, err := s.info(ctx)
	return maps.Clone(info.Usage), err
}

// Usage returns what the answers of the sessions have cost that a list with these
// options has, on all its pages.
func (st *Store) Usage(ctx context.Context, opts *ListOptions) (Usage, error) {
	infos, err := st.List(ctx, opts.whole())
	sum := Usage{}
	for _, info := range infos {
		sum.Add(info.Usage)
	}
	return sum, err
}
