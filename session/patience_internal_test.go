package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Patience begins when somebody waits, and only then takes a timer.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		p := &patience{Context: context.WithValue(t.Context(), key{}, "v"), limit: time.Second}
		time.Sleep(time.Hour)
		if err := p.Err(); err != nil || p.timer != nil {
			t.Fatalf("before anybody waits: %v, timer %v", err, p.timer)
		}
		began := time.Now()
		<-p.Done()
		if took := time.Since(began); took != time.Second || !errors.Is(p.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %v with %v", took, p.Err())
		}
		<-p.Done()
		if p.Value(key{}) != "v" {
			t.Error("a value is lost")
		}
		p.stop()
		q := &patience{Context: t.Context(), limit: time.Second}
		done := q.Done()
		q.stop()
		time.Sleep(time.Hour)
		select {
		case <-done:
			t.Error("ended after stop")
		default:
		}
	})
}
