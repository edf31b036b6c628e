// Package pgdriver keeps sessions in PostgreSQL, so that several machines share them.
package pgdriver
