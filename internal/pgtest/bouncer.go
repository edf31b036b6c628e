//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// ErrNoBouncer reports that PgBouncer is not installed.
var ErrNoBouncer = errors.New("PgBouncer is not installed: on Debian it is the package pgbouncer")

// Bouncer starts a PgBouncer in transaction mode with four connections to the server. stop
// ends it.
func (s *Server) Bouncer(ctx context.Context) (url string, stop func() error, err error) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin = "/usr/sbin/pgbouncer" // few search paths contain this folder
		if _, err := os.Stat(bin); err != nil {
			return "", nil, ErrNoBouncer
		}
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	users, ini := filepath.Join(s.dir, "users"), filepath.Join(s.dir, "bouncer.ini")
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
`, s.port, port, users)
	for path, text := range map[string]string{users: "\"convolog\" \"\"\n", ini: config} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", nil, err
		}
	}
	cmd := s.command(context.WithoutCancel(ctx), "", "-q", ini)
	cmd.Path = bin
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return err
	}
	url = fmt.Sprintf("postgres://convolog@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := s.wait(ctx, port); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return url, stop, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, errors.Join(err, l.Close())
	}
	n, err := strconv.Atoi(port)
	return n, errors.Join(err, l.Close())
}
