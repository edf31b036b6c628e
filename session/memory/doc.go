// Package memory lets the next conversation know what the last one taught.
package memory
