package session

import "context"

// Info is as it was.
func (s *Session) Info() Info {
	info, err := s.info(context.Background())
	if err != nil {
		info = Info{Ref: s.ref}
	}
	return info
}

// Turns is as it was.
func (s *Session) Turns() (n int) {
	_ = s.View(context.Background(), func(v *View) error {
		n = v.Fold().Turns()
		return nil
	})
	return n
}

// NoHead is as it was.
const NoHead = "-"

// Head is as it was.
func (s *Session) Head(ctx context.Context) (id string, err error) {
	err = s.View(ctx, func(v *View) error {
		id = v.Fold().Head()
		return nil
	})
	if id == "" {
		id = NoHead
	}
	return id, err
}
