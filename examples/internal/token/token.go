// Package token keeps the secret of a server for one person in the folder of its store,
// where the commands of that person find it and no other user of the machine can read it.
package token

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
)

// Leave makes a token for the server at a port. It leaves the token in a file of the
// folder; the caller removes the file when the server ends. Without a folder it
// writes no file.
func Leave(folder string, at net.Addr) (token, file string, err error) {
	token = rand.Text()
	if folder == "" {
		return token, "", nil
	}
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "", "", err
	}
	file = name(folder, port)
	err = os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.Remove(file) // a killed server's, perhaps with other rights
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = write(file, token)
	}
	return token, file, err
}

// write makes a file, and follows no link.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Find returns the token of this machine's server that serves a folder at a URL, or "".
func Find(folder string, at *url.URL) string {
	if at.Hostname() != "localhost" && !net.ParseIP(at.Hostname()).IsLoopback() {
		return ""
	}
	file := name(folder, at.Port())
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return "" // a stranger's link would send another file
	}
	token, _ := os.ReadFile(file) // the server refuses an empty one
	return string(token)
}

func name(folder, port string) string { return filepath.Join(folder, "server-"+port+".token") }
