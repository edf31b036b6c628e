package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkFollowers measures a server, in a process of its own, with a thousand
// clients that follow one session: CPU time for each entry and follower, and memory
// for each follower.
func BenchmarkFollowers(b *testing.B) {
	const followers = 1000
	dir, addr := b.TempDir(), freeAddr(b)
	cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this test again
	cmd.Env = append(os.Environ(), serverDir+"="+dir, serverAddr+"="+addr)
	cmd.Stderr = os.Stderr
	require.NoError(b, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	url := "http://" + addr
	require.Eventually(b, func() bool {
		resp, err := http.Post(url+"/api/v1/sessions", "application/json", strings.NewReader(`{"session_id":"one"}`)) //nolint:noctx // the server starts
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	say := func() {
		resp := call(b, "POST", url+"/api/v1/sessions/one/messages", map[string]string{"role": "user", "content": "a text of some words"})
		require.Equal(b, http.StatusOK, resp.StatusCode)
	}
	say()
	_, before := used(b, cmd.Process.Pid)
	ctx, cancel := context.WithCancel(b.Context())
	var got atomic.Int64
	var reading sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{ReadBufferSize: 512, WriteBufferSize: 512}}
	for range followers {
		req, err := http.NewRequestWithContext(ctx, "GET", url+"/v1/store/sessions/main/one/follow", nil)
		require.NoError(b, err)
		resp, err := client.Do(req)
		require.NoError(b, err)
		reading.Go(func() {
			defer resp.Body.Close()
			buffer := make([]byte, 2048)
			for {
				n, err := resp.Body.Read(buffer)
				got.Add(int64(bytes.Count(buffer[:n], []byte("event: entry\n"))))
				if err != nil {
					return
				}
			}
		})
	}
	reach := func(n int64) {
		for got.Load() < n {
			time.Sleep(200 * time.Microsecond)
		}
	}
	reach(2 * followers) // the header and the message
	begin, after := used(b, cmd.Process.Pid)
	n := int64(2)
	for b.Loop() {
		say()
		n++
		reach(n * followers)
	}
	end, _ := used(b, cmd.Process.Pid)
	b.ReportMetric(float64(end-begin)/float64((n-2)*followers), "cpu-ns/follower")
	b.ReportMetric(float64(after-before)/followers, "B/follower")
	cancel()
	reading.Wait()
}

// used is the CPU time and the memory of a process.
func used(b *testing.B, pid int) (cpu time.Duration, memory int) {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, ticks := range fields[11:13] {
		n, err := strconv.Atoi(ticks)
		require.NoError(b, err)
		cpu += time.Duration(n) * 10 * time.Millisecond
	}
	pages, err := strconv.Atoi(fields[21])
	require.NoError(b, err)
	return cpu, pages * os.Getpagesize()
}
