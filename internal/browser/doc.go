// Package browser tests the page of package serve in a real Chromium.
//
//	go test .                       # in this folder; skipped without Chromium
//	go test -run Shots -shots DIR . # makes the screenshots of the documentation
package browser
