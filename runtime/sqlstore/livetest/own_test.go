package livetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// own is servers of the tests' own, which can be killed: nobody else uses them. A script starts them, in a
// directory and at ports of their own, and removes them when the tests end, however they end.
type own struct {
	script string
	// offset sets the ports apart from those of other scripts.
	offset int
	// args are those of start after the port.
	args []string

	dir   string
	guard *exec.Cmd
	alive io.Closer
}

// start starts the servers. The error is errNotInstalled if there are none to start.
func (o *own) start() (err error) {
	if o.dir, err = os.MkdirTemp("", "ratelimitgen"); err != nil {
		return err
	}
	// The servers may run as somebody else.
	if err := os.Chmod(o.dir, 0o755); err != nil {
		return err
	}
	if err := o.watch(); err != nil {
		return err
	}
	err = o.run("start", append([]string{strconv.Itoa(o.port(0))}, o.args...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == statusNotInstalled {
		return fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	return err
}

// errNotInstalled: the servers' software is not there.
var errNotInstalled = errors.New("not installed")

// statusNotInstalled is how a script says so.
const statusNotInstalled = 3

// needOwn requires that servers have started. If they are not installed, the test is skipped, but fails in
// continuous integration.
func needOwn(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// watch starts the script's guard, which removes the servers as soon as this process is no more.
func (o *own) watch() (err error) {
	o.guard = exec.Command(o.script, "guard", o.dir)
	if o.alive, err = o.guard.StdinPipe(); err != nil {
		return err
	}
	return o.guard.Start()
}

// run has the script do something.
func (o *own) run(verb string, args ...string) error {
	out, err := exec.Command(o.script, append([]string{verb, o.dir}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", o.script, verb, err, out)
	}
	return nil
}

// remove kills the servers, if they were started, and removes what they have stored.
func (o *own) remove() {
	if o.guard != nil {
		o.alive.Close()
		o.guard.Wait()
	}
}

// port returns the servers' port number i. Two runs of the tests at once have different ones, unless they
// are out of luck.
func (o *own) port(i int) int { return 20_000 + os.Getpid()%250*40 + o.offset + i }
