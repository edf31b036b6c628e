module github.com/convolog/convolog/internal/wordstest

go 1.26.0

require (
	github.com/convolog/convolog v0.1.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/text v0.42.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
