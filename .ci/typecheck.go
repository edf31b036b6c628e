// Typecheck checks the types of the packages of the module here, with their tests, for other
// operating systems. It generates no code, which takes go vet five times as long.
//
//	go run .ci/typecheck.go windows darwin
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir, Name string
	GoFiles               []string
	ImportMap             map[string]string
	Module                *struct {
		Main      bool
		GoVersion string
	}
}

func main() {
	for _, system := range os.Args[1:] {
		if err := check(system); err != nil {
			fmt.Fprintln(os.Stderr, system+":", err)
			os.Exit(1)
		}
	}
}

// check checks the packages for a system, dependencies first.
func check(system string) error {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,Name,GoFiles,ImportMap,Module", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done, n := packages{"unsafe": types.Unsafe}, 0
	for dec := json.NewDecoder(out); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if strings.HasSuffix(p.ImportPath, ".test") || p.ImportPath == "unsafe" {
			continue // a main function that go test generates
		}
		if err := done.check(p); err != nil {
			return err
		}
		if p.Module != nil && p.Module.Main {
			n++
		}
	}
	fmt.Println(system+":", n, "packages")
	return cmd.Wait()
}

// packages are those that were checked, by import path.
type packages map[string]*types.Package

func (done packages) check(p listed) error {
	var errs []error
	conf := types.Config{
		Importer:         importer(func(path string) (*types.Package, error) { return done.find(p, path) }),
		IgnoreFuncBodies: p.Module == nil || !p.Module.Main,
		Sizes:            types.SizesFor("gc", build.Default.GOARCH),
		Error:            func(err error) { errs = append(errs, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	fset := token.NewFileSet()
	files := make([]*ast.File, len(p.GoFiles))
	for i, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		var err error
		if files[i], err = parser.ParseFile(fset, name, nil, parser.SkipObjectResolution); err != nil {
			return err
		}
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	done[p.ImportPath], _ = conf.Check(path, fset, files, nil)
	if conf.IgnoreFuncBodies { // the standard library has functions in assembly
		return nil
	}
	return errors.Join(errs...)
}

// find returns the package that an import of p means.
func (done packages) find(p listed, path string) (*types.Package, error) {
	if real, ok := p.ImportMap[path]; ok {
		path = real
	}
	if pkg := done[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("%s is not listed before %s", path, p.ImportPath)
}

// An importer is a function as types.Importer.
type importer func(path string) (*types.Package, error)

// Import implements types.Importer.
func (f importer) Import(path string) (*types.Package, error) { return f(path) }
