package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProcessorTimeIsMeasuredOnEachServer(t *testing.T) {
	for _, of := range []server{"", postgres, mariadb, mysqlDB, redisDB} {
		t.Run(string(of), func(t *testing.T) {
			if of != "" {
				reach(t, of)
			}
			meter := (&site{servers: serversFromEnv()}).meterOf(of)
			require.NotNil(t, meter)
			before := meter()
			for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
			}
			used := meter().minus(before)
			require.Positive(t, used.own)
			require.GreaterOrEqual(t, used.server, -tick, "a child that ends is counted in whole ticks from then on")
			require.Equal(t, of == "", meter().server == 0)
		})
	}
}

func TestServerOnAnotherMachineHasNoMeter(t *testing.T) {
	away := servers{}
	for of, dsn := range nowhere {
		away[of] = strings.Replace(dsn, "127.0.0.1", "192.0.2.1", 1)
		require.Nil(t, (&site{servers: away}).meterOf(of), of)
	}
	require.Empty(t, processesOf("no such program"))
}

func TestProcessesAreFoundByTheirProgram(t *testing.T) {
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	require.Contains(t, processesOf("sleep"), child.Process.Pid)
	require.NotContains(t, processesOf("60"), child.Process.Pid, "an argument")
	require.NotContains(t, processesOf("slee"), child.Process.Pid)
}

func TestChildrenOfThisProcess(t *testing.T) {
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	require.Contains(t, childrenOf(os.Getpid()), child.Process.Pid)
	require.NotContains(t, childrenOf(os.Getpid()), os.Getpid())
}

func TestProcessorTimeOfAChildThatHasEndedCounts(t *testing.T) {
	pid := os.Getpid()
	before := familyTime(pid)
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; read line")
	input, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var running time.Duration
	require.Eventually(t, func() bool {
		running = processTime(child.Process.Pid)
		return running >= 20*time.Millisecond
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, input.Close())
	child.Wait()
	require.Zero(t, processTime(child.Process.Pid))
	// The time of ended children is in hundredths of a second.
	require.GreaterOrEqual(t, familyTime(pid)-before, running-10*time.Millisecond)
}

func TestTimeOfEndedChildrenIsReadFromProcStat(t *testing.T) {
	ended, err := parseEnded("2208 (a (name) of) S 1 2208 2208 0 -1 4194560 9 0 0 0 120 34 5 6 20 0 1 0 99 0 0\n")
	require.NoError(t, err)
	require.Equal(t, 110*time.Millisecond, ended)
	for _, text := range []string{"", "1 (sh) S 1 2 3", "1 (sh) S 1 2208 2208 0 -1 4194560 9 0 0 0 120 34 many 6 20 0"} {
		_, err := parseEnded(text)
		require.Error(t, err, text)
	}
}
