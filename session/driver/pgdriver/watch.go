package pgdriver

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Watcher = (*Driver)(nil)

// Times between two polls of a watched driver. It also polls while notifications arrive,
// because a process may be killed between a commit and its notification.
const (
	pollAlone    = time.Second
	pollNotified = 10 * time.Second
)

// notifyPause is the shortest time between two rounds of notifications. Each round covers
// all changes since the previous round. The first round does not wait.
const notifyPause = 5 * time.Millisecond

// watches are the calls of Watch and their state.
type watches struct {
	mu      sync.Mutex
	all     map[*watch]bool
	stop    context.CancelFunc // stops the listener; nil without watches
	pending map[string]bool    // texts of notifications
	sending bool
}

type watch struct {
	ref     driver.Ref // zero for all sessions
	changed func(driver.Ref, error)
}

// Watch implements [driver.Watcher]. All watches listen on one connection outside the pool.
// With a pooler that drops notifications they poll every second.
func (d *Driver) Watch(ref driver.Ref, changed func(driver.Ref, error)) (stop func(), err error) {
	watch := func() error {
		stop = d.watch(ref, changed)
		return nil
	}
	if ref == (driver.Ref{}) {
		err = fail("watch", nil, d.during(context.Background(), watch))
	} else {
		err = d.on(context.Background(), "watch", ref, watch)
	}
	return stop, err
}

func (d *Driver) watch(ref driver.Ref, changed func(driver.Ref, error)) (stop func()) {
	w := &watch{ref, changed}
	ws := &d.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watch]bool{}
	}
	ws.all[w] = true
	if ws.stop == nil {
		ctx, cancel := context.WithCancel(d.closing)
		ws.stop = cancel
		go d.listen(ctx)
	}
	return sync.OnceFunc(func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		delete(ws.all, w)
		if len(ws.all) == 0 && ws.stop != nil {
			ws.stop()
			ws.stop = nil
		}
	})
}

// tell calls the watches of a session, or all watches if ref is zero. An error ends them.
func (d *Driver) tell(ref driver.Ref, err error) {
	ws := &d.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		if ref == (driver.Ref{}) || w.ref == ref || w.ref == (driver.Ref{}) {
			w.changed(ref, err)
		}
	}
	if err != nil {
		ws.all = nil
	}
}

// changed reports a change of a session: to the watches of this driver at once, and to other
// processes by a notification. Notifications are sent outside the transaction of the change,
// because commits that notify wait for each other.
func (d *Driver) changed(ref driver.Ref) {
	d.tell(ref, nil)
	ws := &d.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.pending == nil {
		ws.pending = map[string]bool{}
	}
	ws.pending[payload(ref)] = true
	if !ws.sending {
		ws.sending = true
		go d.notify()
	}
}

func (d *Driver) notify() {
	ws := &d.watches
	for {
		ws.mu.Lock()
		if len(ws.pending) == 0 {
			ws.sending = false
			ws.mu.Unlock()
			return
		}
		names := slices.Collect(maps.Keys(ws.pending))
		clear(ws.pending)
		ws.mu.Unlock()
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), pollNotified)
		_, err := d.exec(ctx, "SELECT set_config('synchronous_commit', 'off', true), count(pg_notify($1, name)) FROM pg_catalog.unnest($2::text[]) AS name", d.channel(), names)
		cancel()
		if err != nil {
			d.opts.Logger.Warn("pgdriver: notify", "err", err) // other processes poll
		}
		time.Sleep(max(notifyPause, 9*time.Since(start))) // use at most a tenth of a connection's time
	}
}

// payload returns the text of a notification.
func payload(ref driver.Ref) string {
	text, _ := json.Marshal([2]string{ref.Agent, ref.ID})
	return string(text)
}

// channel returns the name of the notification channel. It has at most maxName bytes.
func (d *Driver) channel() string {
	if name := "convolog_" + d.opts.Schema; len(name) <= maxName {
		return name
	}
	return "convolog_" + hex.EncodeToString(keyHash(d.opts.Schema)[:16])
}

// listen passes changes of other processes to the watches, until the last watch ends.
func (d *Driver) listen(ctx context.Context) {
	heard := make(chan struct{}, 1)
	go d.hear(ctx, heard)
	var last int64
	for pause := pollAlone; ctx.Err() == nil; {
		var now int64
		if err := d.row(ctx, "SELECT last_value FROM {s}.changes").Scan(&now); err == nil && now != last {
			last = now
			d.tell(driver.Ref{}, nil)
		}
		select {
		case <-heard:
			pause = pollNotified
			continue
		case <-time.After(pause):
			pause = pollAlone // until the next notification
		case <-ctx.Done():
		}
	}
}

// hear receives notifications, and connects again after a failure.
func (d *Driver) hear(ctx context.Context, heard chan<- struct{}) {
	for ctx.Err() == nil {
		if err := d.hearOn(ctx, heard); err != nil && ctx.Err() == nil {
			d.opts.Logger.Warn("pgdriver: listen", "err", err)
		}
		select {
		case <-time.After(pollAlone):
		case <-ctx.Done():
		}
	}
}

func (d *Driver) hearOn(ctx context.Context, heard chan<- struct{}) error {
	cfg := d.pool.Config()
	if cfg.BeforeConnect != nil { // it may set a changing password
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{d.channel()}.Sanitize(), pgx.QueryExecModeExec); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		var name [2]string
		if json.Unmarshal([]byte(n.Payload), &name) == nil {
			d.tell(driver.Ref{Agent: name[0], ID: name[1]}, nil)
		}
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}
