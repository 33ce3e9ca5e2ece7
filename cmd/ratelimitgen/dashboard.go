package main

import (
	"flag"

	"github.com/ratelimitgen/ratelimitgen/gen/dashboard"
)

func dashboardCommand() command {
	return command{
		name:    "dashboard",
		args:    "[FILE]",
		summary: "print a Grafana dashboard or alert rules for the limits",
		help: `FILE defaults to limits.yaml. The dashboard is JSON, to import into Grafana or to provision; the alert
rules are a rule file of Prometheus. Both read the metrics of package runtime/observe, or of
runtime/otellimit in Prometheus: see their documentation. Print them again when the limits change.

The exit code is 1 if FILE is not valid.
`,
		prepare: prepareDashboard,
	}
}

func prepareDashboard(flags *flag.FlagSet) action {
	alerts := flags.Bool("alerts", false, "print alert rules for Prometheus in place of the dashboard")
	return func(s streams, args []string) error {
		path, err := oneFile(args, "a dashboard is of one package")
		if err != nil {
			return err
		}
		file, err := readValid(s, path, &choice{"never"})
		if err != nil {
			return err
		}
		write, to := dashboard.Grafana, s.json
		if *alerts {
			write, to = dashboard.Alerts, s.data
		}
		text, err := write(file.File)
		if err != nil {
			return err
		}
		_, err = to.Write(text)
		return err
	}
}
