package main

import (
	"os"
	"os/exec"
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
			meter, err := (&site{servers: serversFromEnv()}).meterOf(t.Context(), of)
			require.NoError(t, err)
			before := meter()
			for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
				ownTime()
			}
			used := meter().minus(before)
			require.Positive(t, used.own)
			require.GreaterOrEqual(t, used.server, time.Duration(0))
			require.Equal(t, of == "", meter().server == 0)
		})
	}
}

func TestServerThatDoesNotAnswerHasNoMeter(t *testing.T) {
	for of := range nowhere {
		_, err := (&site{servers: nowhere}).meterOf(t.Context(), of)
		require.Error(t, err, of)
	}
}

func TestChildrenOfThisProcess(t *testing.T) {
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	require.Contains(t, childrenOf(os.Getpid()), child.Process.Pid)
	require.NotContains(t, childrenOf(os.Getpid()), os.Getpid())
}
