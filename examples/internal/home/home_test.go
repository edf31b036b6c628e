package home_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/home"
)

// Only the default folder must not be a link: a person may name one.
func TestCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, home.Check(home.Default), "it does not exist")
	require.NoError(t, os.Mkdir("other", 0o700))
	require.NoError(t, os.Symlink("other", home.Default))
	require.ErrorContains(t, home.Check(home.Default), "a symbolic link to other")
	require.NoError(t, home.Check("./"+home.Default))
	require.NoError(t, os.Remove(home.Default))
	require.NoError(t, os.Mkdir(home.Default, 0o700))
	require.NoError(t, home.Check(home.Default))
}
