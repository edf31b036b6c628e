package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

const chromium = "/usr/bin/chromium"

// patience is how long a page may take to reach an expected state.
const patience = 60 * time.Second

// A devtools is a Chromium that is driven through pipes, by its DevTools protocol.
type devtools struct {
	cmd *exec.Cmd
	in  *os.File

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	listens map[string]func(message) // by session
}

// A message is a command, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// launch starts a Chromium that keeps its files in a folder.
func launch(dir string) (*devtools, error) {
	fromUs, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, fromIt, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, fromIt} // 3 and 4
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = fromUs.Close(), fromIt.Close()
	d := &devtools{cmd: cmd, in: in, waiting: map[int]chan message{}, listens: map[string]func(message){}}
	go d.read(out)
	return d, nil
}

// read hands on what Chromium says, until it ends.
func (d *devtools) read(out *os.File) {
	defer out.Close()
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		d.mu.Lock()
		answered, listen := d.waiting[m.ID], d.listens[m.Session]
		delete(d.waiting, m.ID)
		d.mu.Unlock()
		switch {
		case m.ID > 0 && answered != nil:
			answered <- m
		case m.ID == 0 && listen != nil:
			listen(m)
		}
	}
}

// call sends a command and decodes its answer.
func (d *devtools) call(session, method string, params, result any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answered := make(chan message, 1)
	d.mu.Lock()
	d.last++
	m := message{ID: d.last, Session: session, Method: method, Params: data}
	d.waiting[m.ID] = answered
	text, err := json.Marshal(m)
	if err == nil {
		_, err = d.in.Write(append(text, 0))
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	select {
	case m = <-answered:
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer", method)
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// close ends Chromium.
func (d *devtools) close() error {
	err := d.call("", "Browser.close", struct{}{}, nil)
	done := make(chan error, 1)
	go func() { done <- d.cmd.Wait() }()
	select {
	case <-done:
		return err
	case <-time.After(patience):
		return errors.Join(err, d.cmd.Process.Kill())
	}
}
