// Consumer tests a release of this repository before the release is made. It installs and
// builds the release like a user, outside of the checkout and without go.work.
//
//	go -C internal/consumer run . "$PWD"
//
// It packs the root module and each nested module that is not below internal, from the
// last commit, into a folder that serves as GOPROXY. The version is the version in go.work.
// Then it installs each program, and for each module builds a program that imports all
// importable packages. It ends with status 1 if one of these commands fails, for example
// because a go.mod has a replace line, or lacks a requirement that the workspace supplies.
//
// Other modules come from the module cache, or from the proxy if the cache lacks them.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("consumer: ")
	if len(os.Args) != 2 {
		log.Fatal("give the folder of the checkout")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal("a release of this checkout cannot be used:\n", err)
	}
}

func run(checkout string) error {
	checkout, err := filepath.Abs(checkout)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "consumer")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	version, err := releaseOf(checkout)
	if err != nil {
		return err
	}
	modules, err := pack(checkout, version, filepath.Join(tmp, "proxy"))
	if err != nil {
		return err
	}
	config, err := output(checkout, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return err
	}
	cache, public, _ := strings.Cut(strings.TrimSpace(config), "\n")
	user := user{dir: tmp, env: append(os.Environ(),
		"GOWORK=off",
		"GOFLAGS=-mod=mod -modcacherw -trimpath", // -trimpath lets a later run reuse compiled packages
		"GOBIN="+filepath.Join(tmp, "bin"),
		"GOMODCACHE="+filepath.Join(tmp, "mod"), // a shared cache would keep this version
		"GOSUMDB=off",                           // the sum database lacks this version; other modules in the cache are verified
		"GOPROXY=file://"+filepath.Join(tmp, "proxy")+",file://"+filepath.Join(cache, "cache", "download")+","+public,
	)}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		programs, libraries, err := packages(modules[name])
		if err != nil {
			return err
		}
		install := []string{"install"}
		if strings.Contains(name, "/examples/") && path.Base(name) != "convolog" {
			install = append(install, "-n") // resolves all modules and packages, but does not compile the SDKs
		}
		for _, p := range programs {
			failed = append(failed, user.run(".", append(install, p+"@"+version)...))
		}
		failed = append(failed, user.build(name, version, libraries))
	}
	return errors.Join(failed...)
}

// releaseOf returns the version in the replace lines of go.work.
func releaseOf(checkout string) (string, error) {
	file := filepath.Join(checkout, "go.work")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	work, err := modfile.ParseWork(file, data, nil)
	if err != nil {
		return "", err
	}
	if len(work.Replace) == 0 {
		return "", fmt.Errorf("%s replaces no module", file)
	}
	return work.Replace[0].Old.Version, nil
}

// pack writes the modules into a folder in the layout of a proxy. It returns the folder of
// each module in the checkout.
func pack(checkout, version, proxy string) (map[string]string, error) {
	files, err := output(checkout, "git", "ls-files", "go.mod", "**/go.mod")
	if err != nil {
		return nil, err
	}
	modules := map[string]string{}
	for file := range strings.FieldsSeq(files) {
		dir := strings.TrimPrefix(path.Dir(file), ".")
		if strings.Contains("/"+dir+"/", "/internal/") {
			continue
		}
		mod, err := output(checkout, "git", "show", "HEAD:"+file)
		if err != nil {
			return nil, err
		}
		m := module.Version{Path: modfile.ModulePath([]byte(mod)), Version: version}
		escaped, err := module.EscapePath(m.Path)
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		if err := zip.CreateFromVCS(&packed, m, checkout, "HEAD", dir); err != nil {
			return nil, err
		}
		served := filepath.Join(proxy, escaped, "@v")
		for name, data := range map[string][]byte{
			"list":            []byte(version + "\n"),
			version + ".info": []byte(`{"Version":"` + version + `"}`),
			version + ".mod":  []byte(mod),
			version + ".zip":  packed.Bytes(),
		} {
			if err := write(filepath.Join(served, name), data); err != nil {
				return nil, err
			}
		}
		modules[m.Path] = filepath.Join(checkout, dir)
	}
	return modules, nil
}

// packages returns the programs of the module in a folder, and its importable packages.
func packages(dir string) (programs, libraries []string, err error) {
	list, err := output(dir, "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(list) {
		name, pkg, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "main":
			programs = append(programs, pkg)
		case !strings.Contains("/"+pkg+"/", "/internal/"):
			libraries = append(libraries, pkg)
		}
	}
	return programs, libraries, nil
}

// A user is a folder and an environment in which go commands use the release.
type user struct {
	dir string
	env []string
}

// build builds a program that imports packages of a module.
func (u user) build(module, version string, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	dir := path.Base(module)
	var imports strings.Builder
	for _, p := range packages {
		fmt.Fprintf(&imports, "import _ %q\n", p)
	}
	if err := errors.Join(
		write(filepath.Join(u.dir, dir, "go.mod"), []byte("module user\n")),
		write(filepath.Join(u.dir, dir, "main.go"), []byte("package main\n\n"+imports.String()+"\nfunc main() {}\n")),
	); err != nil {
		return err
	}
	if err := u.run(dir, "get", module+"@"+version); err != nil {
		return err
	}
	return u.run(dir, "build", "-o", os.DevNull, ".")
}

func (u user) run(dir string, args ...string) error {
	fmt.Println("go", strings.Join(args, " "))
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = filepath.Join(u.dir, dir), u.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// output returns the standard output of a command.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s in %s: %w", name, strings.Join(args, " "), dir, err)
	}
	return string(out), nil
}

func write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}
