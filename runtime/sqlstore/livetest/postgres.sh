#!/bin/sh
# Runs a PostgreSQL server on loopback, of a test's own: nothing outside DIR is touched, and nothing
# remains of it.
#
#   postgres.sh start DIR PORT     start the server, at PORT
#   postgres.sh restart DIR        end it without any preparation, as a crash would, and start it again
#   postgres.sh standby DIR PORT   start a replica of it, which only reads, at PORT+1
#   postgres.sh guard DIR          wait for the end of the standard input; then end all and remove DIR
#
# The user is postgres, without a password, and the database postgres. Only a user guarded, if one is created,
# is asked for a password. The status is 3 if the server is not installed.
set -eu

verb=$1
dir=$2

# The newest release that is installed: Debian keeps them out of the PATH.
PATH=$PATH$(printf ':%s' $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV))

# own COMMAND...: run a command as somebody else than root, to whom the server does not start.
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
	own mkdir -m 700 "$dir/standby"
	own pg_basebackup --host=127.0.0.1 --port="$3" --username=postgres --pgdata="$dir/standby" \
		--write-recovery-conf --checkpoint=fast --no-sync
	own pg_ctl start --wait --silent --pgdata="$dir/standby" --log="$dir/standby.log" --options="--port=$(($3 + 1))"
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
