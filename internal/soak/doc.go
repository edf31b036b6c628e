// Package soak tests a whole store with its features: against power cuts, failing system
// calls and killed writers, and with long conversations. It contains only tests.
package soak
