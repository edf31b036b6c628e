package cli

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
)

// build describes this program.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion returns the version of the module. A build in a clone is "(devel)", or has
// the commit.
func buildVersion() build {
	b := build{"(devel)", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(info.Main.Version, b.Version)
	}
	return b
}

func printVersion(_ context.Context, c *call) error {
	b := buildVersion()
	return c.value(b, func() { c.say("convolog %s, %s, %s", b.Version, b.Go, b.Platform) })
}
