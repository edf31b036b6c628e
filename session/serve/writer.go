package serve

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// Media types of answers that are not one JSON value.
const (
	mediaEvents = "text/event-stream"
	mediaLines  = "application/jsonl"
	mediaText   = "text/plain; charset=utf-8"
	mediaHTML   = "text/html; charset=utf-8"
)

// A writer disconnects clients that do not read in time.
type writer struct {
	http.ResponseWriter
	patience time.Duration
	begun    bool // the status is sent
}

// WriteHeader sends the status.
func (w *writer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write gives the client the time patience for each part.
func (w *writer) Write(data []byte) (n int, err error) {
	w.begun = true
	for part := range slices.Chunk(data, 64<<10) {
		err = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.patience))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
		written, err := w.ResponseWriter.Write(part)
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Unwrap gives http.ResponseController access to the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
