package rebuild

// slab hands out zeroed slices of arrays that it makes in advance, for many
// small things that live as long as one another.
type slab[T any] struct {
	free []T
	size int // of the last array
}

// take returns n values. Appending to them moves them elsewhere.
func (s *slab[T]) take(n int) []T {
	if n > len(s.free) {
		s.size = min(max(2*s.size, 4), 256)
		s.free = make([]T, max(n, s.size))
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}

func (s *slab[T]) one() *T { return &s.take(1)[0] }
