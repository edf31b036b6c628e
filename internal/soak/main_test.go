package soak_test

import (
	"testing"

	"github.com/convolog/convolog/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }
