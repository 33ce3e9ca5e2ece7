package releasetest

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// program imports every module that is released.
const program = `package main

import (
	"context"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limitgrpc"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/otellimit"
	"google.golang.org/grpc"
)

func main() {
	observer, err := otellimit.New(otellimit.Options{})
	if err != nil {
		panic(err)
	}
	limit := limiter.New(&memstore.Store{}, limiter.Observe(observer))
	calls := limitgrpc.New(limit, limitgrpc.Options{}).Limit(func(context.Context, limitgrpc.Call) (limiter.Item, error) { return nil, nil })
	fmt.Println(grpc.UnaryInterceptor(calls.Unary) != nil, runtime.ErrLimited)
}
`

// The commands of a release, word for word, in a clone of the last commit. A program of a user then requires the modules
// from a proxy that has nothing but what the tags have.
func TestRelease(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "CONTRIBUTING.md"))
	require.NoError(t, err)
	commands := part(t, string(text), "A release", "(?s)```sh\n(version=.*?)```")
	v := version()
	_, commands, _ = strings.Cut(commands, "\n")

	origin, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	output(t, origin, nil, "git", "init", "--bare", "--quiet")
	output(t, root, nil, "git", "clone", "--quiet", ".", clone)
	output(t, clone, nil, "git", "remote", "set-url", "origin", origin)
	author := []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	output(t, clone, author, "bash", "-euc", "version="+v+"\n"+commands)

	// Each tag is a module, whose zip is made of the tag as a proxy makes it.
	p, environment := newProxy(t)
	var required []string
	for _, tag := range strings.Fields(output(t, origin, nil, "git", "tag", "--list", "*"+v)) {
		dir := strings.TrimSuffix(strings.TrimSuffix(tag, v), "/")
		m := module.Version{Path: path.Join(modulePath, dir), Version: v}
		goMod := []byte(output(t, origin, nil, "git", "show", tag+":"+path.Join(dir, "go.mod")))
		parsed, err := modfile.Parse("go.mod", goMod, nil)
		require.NoError(t, err)
		assert.Equal(t, m.Path, parsed.Module.Mod.Path)
		for _, r := range parsed.Require {
			assert.True(t, r.Mod.Path != modulePath || r.Mod.Version == v, "%s requires %s", m, r.Mod)
		}
		p.add(t, m, goMod, func(w io.Writer) error { return zip.CreateFromVCS(w, m, clone, tag, dir) })
		required = append(required, m.String())
	}
	require.Len(t, required, 3)

	user := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(user, "main.go"), []byte(program), 0o644))
	output(t, user, environment, "go", "mod", "init", "example.com/user")
	output(t, user, environment, "go", append([]string{"get"}, required...)...)
	output(t, user, environment, "go", "mod", "tidy")
	assert.Equal(t, "true rate limited\n", output(t, user, environment, "go", "run", "."))
}
