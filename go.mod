module github.com/convolog/convolog

go 1.26.5

require (
	github.com/google/uuid v1.6.0
	golang.org/x/sys v0.49.0
)
