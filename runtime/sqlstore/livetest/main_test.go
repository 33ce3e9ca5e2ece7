package livetest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// long asks for the tests that take minutes, and for ten times as many histories.
var long = flag.Bool("long", false, "run the long tests too")

// TestMain runs the tests, or races in another process of them; see [course] and [leasedHeat].
func TestMain(m *testing.M) {
	for env, race := range map[string]func(string) error{courseEnv: raceOn, leaseEnv: raceLeased, outageEnv: takeInOutage} {
		if course, ok := os.LookupEnv(env); ok {
			if err := race(course); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	mysql.SetLogger(&mysql.NopLogger{}) // connections are cut on purpose
	code := m.Run()
	galera.remove()
	mysqlGroup.remove()
	os.Exit(code)
}
