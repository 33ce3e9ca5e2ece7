#!/bin/sh
# Runs a PostgreSQL server on loopback for tests. All files are in DIR, which guard removes.
#
#   postgres.sh start DIR PORT     start the server, at PORT
#   postgres.sh restart DIR        kill it as a crash would, and start it again
#   postgres.sh standby DIR PORT [SETTING=VALUE...]
#                                  start a read-only replica of it at PORT+1
#   postgres.sh guard DIR          wait for the end of the standard input; then kill all servers and remove DIR
#
# The user is postgres, without a password, and the database postgres. Only the user guarded, if a test creates it, needs a
# password. The status is 3 if the server is not installed.
set -eu

verb=$1
dir=$2

# The newest installed release. Debian does not put them into the PATH.
PATH=$PATH$(printf ':%s' $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV))

# own COMMAND...: run a command as a user other than root, because Postgres refuses to run as root.
own() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- env PATH="$PATH" "$@"
	else
		"$@"
	fi
}

case $verb in
start)
	command -v initdb >/dev/null || { echo "postgres.sh: PostgreSQL is not installed" >&2; exit 3; }
	[ "$(id -u)" != 0 ] || chown postgres "$dir"
	own initdb --pgdata="$dir/data" --username=postgres --auth=trust --no-sync >"$dir/install.log"
	sed -i '1i host all guarded 127.0.0.1/32 scram-sha-256' "$dir/data/pg_hba.conf"
	cat >>"$dir/data/postgresql.conf" <<-END
		port = $3
		listen_addresses = '127.0.0.1'
		unix_socket_directories = ''
	END
	own pg_ctl start --wait --silent --pgdata="$dir/data" --log="$dir/log"
	;;
restart)
	own pg_ctl restart --mode=immediate --wait --silent --pgdata="$dir/data" --log="$dir/log"
	;;
standby)
	port=$3
	shift 3
	own mkdir -m 700 "$dir/standby"
	own pg_basebackup --host=127.0.0.1 --port="$port" --username=postgres --pgdata="$dir/standby" \
		--write-recovery-conf --checkpoint=fast --no-sync
	own pg_ctl start --wait --silent --pgdata="$dir/standby" --log="$dir/standby.log" \
		--options="--port=$((port + 1))$(printf ' --%s' "$@")"
	;;
guard)
	cat >/dev/null
	for data in "$dir/standby" "$dir/data"; do
		own pg_ctl stop --mode=immediate --wait --silent --pgdata="$data" 2>/dev/null || true
	done
	rm -rf "$dir"
	;;
*)
	sed -n 's/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
