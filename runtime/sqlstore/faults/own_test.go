package faults

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// own is servers that only these tests use, so that they can be killed. A script starts them in their own directory
// at free ports, and removes them when the tests end, however they end.
type own struct {
	script string
	// args are the arguments of start after the port.
	args []string

	dir string
	// first is the first of the ports.
	first int
	guard *exec.Cmd
	alive io.Closer
}

// start starts the servers. The error wraps errNotInstalled if their software is missing.
func (o *own) start() (err error) {
	if o.dir, err = os.MkdirTemp("", "ratelimitgen"); err != nil {
		return err
	}
	// The servers may run as another user.
	if err := os.Chmod(o.dir, 0o755); err != nil {
		return err
	}
	if err := o.watch(); err != nil {
		return err
	}
	o.first = freePorts()
	err = o.run("start", append([]string{strconv.Itoa(o.port(0))}, o.args...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == statusNotInstalled {
		return fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	return err
}

// errNotInstalled: the software of a server is missing.
var errNotInstalled = errors.New("not installed")

// statusNotInstalled is the exit status of a script whose software is missing.
const statusNotInstalled = 3

// needOwn skips the test if the error is errNotInstalled, but fails it if CI is set, and for all other errors.
func needOwn(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// watch starts the guard of the script, which removes the servers when this process ends.
func (o *own) watch() (err error) {
	o.guard = exec.Command(o.script, "guard", o.dir)
	// A signal that ends this process together with its children, as Ctrl-C and timeout send it, must not reach the guard.
	o.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o.alive, err = o.guard.StdinPipe(); err != nil {
		return err
	}
	return o.guard.Start()
}

// run runs a verb of the script.
func (o *own) run(verb string, args ...string) error {
	out, err := exec.Command(o.script, append([]string{verb, o.dir}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", o.script, verb, err, out)
	}
	return nil
}

// remove kills the servers, if they were started, and removes their files.
func (o *own) remove() {
	if o.guard != nil {
		o.alive.Close()
		o.guard.Wait()
	}
}

// port returns the ith port of the servers.
func (o *own) port(i int) int { return o.first + i }

// freePorts returns the first of as many free ports as the servers of a script have at most. They are below those of
// clients.
func freePorts() int {
	const most = 52
	for {
		first, free := 20_000+most*rand.N(240), 0
		for i := range most {
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+i)))
			if err == nil {
				listener.Close()
				free++
			}
		}
		if free == most {
			return first
		}
	}
}
