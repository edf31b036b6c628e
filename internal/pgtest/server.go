//go:build unix

// Package pgtest runs a PostgreSQL server for tests, which can kill it. It needs no client
// library, so that any module can use it.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// A Server is a server on a port of the loopback interface, with fsync on.
type Server struct {
	// URL names the superuser convolog and the database postgres.
	URL string

	bin, dir string
	port     int
	as       *syscall.Credential // nil means the user of this process
	cmd      *exec.Cmd
	ended    chan struct{}
}

// ErrMissing reports that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed: on Debian it is the package postgresql")

// Start makes a database cluster and starts a server on it. If this process runs as root,
// the server runs as the user postgres, because a server refuses to run as root.
func Start(ctx context.Context) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "convolog-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir}
	if os.Getuid() == 0 {
		if err := s.dropRoot(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	out, err := s.command(ctx, "initdb", "-D", filepath.Join(dir, "data"), "-A", "trust", "-U", "convolog", "-E", "UTF8", "--no-sync").CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(dir))
	}
	if s.port, err = freePort(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.URL = fmt.Sprintf("postgres://convolog@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	if err := s.Run(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Main starts a server, stores it in server, runs tests that need it, and returns the exit
// code. If PostgreSQL is not installed, it prints that and runs no test.
func Main(tests interface{ Run() int }, server **Server) int {
	s, err := Start(context.Background())
	switch {
	case errors.Is(err, ErrMissing):
		fmt.Println("skipped:", err)
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*server = s
	code := tests.Run()
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// find returns the folder of the programs of the newest installed server.
func find() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path) // a link may be without the other programs
		return filepath.Dir(path), err
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(all) == 0 {
		return "", ErrMissing
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 if it is not a number
		return n
	}
	return filepath.Dir(slices.MaxFunc(all, func(a, b string) int { return version(a) - version(b) })), nil
}

func (s *Server) dropRoot() error {
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	s.as = &syscall.Credential{}
	if _, err := fmt.Sscan(u.Uid, &s.as.Uid); err != nil {
		return err
	}
	if _, err := fmt.Sscan(u.Gid, &s.as.Gid); err != nil {
		return err
	}
	return os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid))
}

// command returns a command that runs one of the server's programs in a process group of
// its own.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.as}
	return cmd
}

// Run starts the server and waits until it answers, even if the server must recover first.
func (s *Server) Run(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		cmd := s.command(context.WithoutCancel(ctx), "postgres", "-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port),
			"-k", s.dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "max_connections=200")
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return err
		}
		s.cmd, s.ended = cmd, make(chan struct{})
		go func() {
			defer close(s.ended)
			_ = cmd.Wait() // it will be killed
		}()
		for running := true; running; {
			if s.answers(ctx, s.port) == nil {
				return nil
			}
			select {
			case <-s.ended: // processes of its last run still exist, so try again
				running = false
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return errors.Join(s.Wait(ctx), s.Kill())
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return s.Wait(ctx)
}

func (s *Server) answers(ctx context.Context, port int) error {
	out, err := s.command(ctx, "pg_isready", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "convolog", "-d", "postgres").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Wait waits until the server answers.
func (s *Server) Wait(ctx context.Context) error { return s.wait(ctx, s.port) }

func (s *Server) wait(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := s.answers(ctx, port)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("no server answers on port %d: %w\n%s", port, err, text)
		}
	}
}

// Kill kills every process of the server at once, like a crash of the machine that keeps
// the page cache.
func (s *Server) Kill() error {
	pid := s.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // so that it makes no more children
		return err
	}
	for state, _ := stat(pid); state != "T" && state != "Z"; state, _ = stat(pid) {
		time.Sleep(time.Millisecond) // it may still make a child
	}
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended
	}
	err := syscall.Kill(pid, syscall.SIGKILL)
	<-s.ended
	return err
}

// children returns the child processes of a process. They are in sessions of their own,
// and not in its process group.
func children(pid int) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		child, err := strconv.Atoi(filepath.Base(folder))
		if _, parent := stat(child); err == nil && parent == pid {
			pids = append(pids, child)
		}
	}
	return pids
}

// stat returns the state of a process, or Z for a missing process, and its parent.
func stat(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	if err == nil {
		_, err = fmt.Sscan(string(rest), &state, &parent)
	}
	if err != nil { // the process has ended
		return "Z", 0
	}
	return state, parent
}

// Stop ends the server, which frees its shared memory, and removes its data.
func (s *Server) Stop() error {
	err := s.cmd.Process.Signal(syscall.SIGQUIT) // SIGQUIT does not wait for clients
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		err = s.Kill()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
