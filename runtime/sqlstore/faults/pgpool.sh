#!/bin/sh
# Runs a Pgpool-II on loopback for tests, in front of a Postgres primary and its replica. All files are in DIR, which guard
# removes.
#
#   pgpool.sh start DIR PORT DELAY [SETTING=VALUE...]
#                        start Pgpool-II at PORT with these settings, the primary at PORT+1, and the replica at PORT+2, which
#                        applies each commit DELAY later; PORT+3 is for Pgpool-II itself
#   pgpool.sh guard DIR  wait for the end of the standard input; then kill all servers and remove DIR
#
# Pgpool-II balances reads as it does by default, but sends every one that it may to the replica, and logs to DIR/pgpool.log
# which statement it sends to which server: "DB node id: 0" is the primary. The user is postgres, without a password, and
# the database postgres. The status is 3 if Pgpool-II or Postgres is not installed; Debian's packages are pgpool2 and
# postgresql.
set -eu

verb=$1
dir=$2
postgres=$(dirname "$0")/postgres.sh

# own COMMAND...: run a command as a user other than root, like Postgres.
own() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

# replays reports whether the replica can be read.
replays() { [ "$(psql --host=127.0.0.1 --port="$1" --username=postgres --no-align --tuples-only --command='SELECT 1' 2>&1)" = 1 ]; }

case $verb in
start)
	port=$3 delay=$4
	shift 4
	PATH=$PATH:/usr/sbin
	pgpool=$(command -v pgpool) || { echo "pgpool.sh: Pgpool-II is not installed" >&2; exit 3; }
	"$postgres" start "$dir" $((port + 1))
	"$postgres" standby "$dir" $((port + 1)) "recovery_min_apply_delay=$delay" hot_standby_feedback=on
	{
		cat <<-END
			listen_addresses = '127.0.0.1'
			port = $port
			socket_dir = '$dir'
			pcp_listen_addresses = '127.0.0.1'
			pcp_port = $((port + 3))
			pcp_socket_dir = '$dir'
			pid_file_name = '$dir/pgpool.pid'
			logdir = '$dir'
			backend_clustering_mode = 'streaming_replication'
			backend_hostname0 = '127.0.0.1'
			backend_port0 = $((port + 1))
			backend_weight0 = 0
			backend_hostname1 = '127.0.0.1'
			backend_port1 = $((port + 2))
			backend_weight1 = 1
			failover_on_backend_error = off
			sr_check_period = 1
			sr_check_user = 'postgres'
			num_init_children = 60
			log_per_node_statement = on
		END
		for setting in "$@"; do
			echo "${setting%%=*} = ${setting#*=}"
		done
	} >"$dir/pgpool.conf"
	: >"$dir/pcp.conf"
	: >"$dir/pgpool.log"
	[ "$(id -u)" != 0 ] || chown postgres "$dir/pgpool.log"
	(own setsid "$pgpool" -n -D -f "$dir/pgpool.conf" -F "$dir/pcp.conf") >>"$dir/pgpool.log" 2>&1 </dev/null &
	for _ in $(seq 150); do
		if replays "$port"; then exit; fi
		sleep 0.2
	done
	echo "pgpool.sh: it does not answer at port $port" >&2
	tail -n 20 "$dir/pgpool.log" >&2
	exit 1
	;;
guard)
	cat >/dev/null
	# The file ends with a zero byte.
	if pid=$(tr -d '\0' <"$dir/pgpool.pid" 2>/dev/null); then
		kill -QUIT "$pid" || true
	fi
	: | "$postgres" guard "$dir"
	;;
*)
	sed -n 's/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
