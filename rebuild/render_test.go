package rebuild_test

import (
	"testing"

	"github.com/convolog/convolog/rebuild"
)

func checkRendered(testing.TB, rebuild.History) {}
