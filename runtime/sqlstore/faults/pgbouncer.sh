#!/bin/sh
# Runs a PgBouncer on loopback for tests. All files are in DIR, which guard removes.
#
#   pgbouncer.sh start DIR PORT HOST:PORT/DATABASE RELEASE [SETTING=VALUE...]
#                           start it at PORT, in front of that database, with these settings
#   pgbouncer.sh guard DIR  wait for the end of the standard input; then kill it and remove DIR
#
# Its databases are named after their pool mode: session, transaction and statement, with 4 connections, or 20 of session, and
# single, with one connection in transaction mode. The database nowhere has no server. The user is postgres, without a password.
# RELEASE is "installed", or a suite of Debian whose PgBouncer is unpacked into DIR with its libraries and run from there.
# The status is 3 if the installed one is missing.
set -eu
. "$(dirname "$0")/debian.sh"

verb=$1
dir=$2
root=$dir/root

# own COMMAND...: run a command as a user other than root, because PgBouncer refuses to run as root.
own() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

# unpack SUITE: download PgBouncer and its libraries, without changing the installed packages.
unpack() {
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$root"
	: >"$dir/apt/status"
	debian_sources "$1" >"$dir/apt/suite.sources"
	set -- -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/apt/" -o Dir::State::Lists="$dir/apt/lists" \
		-o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User=root
	apt-get "$@" update
	(cd "$dir/apt" && apt-get "$@" download pgbouncer libc6 libcares2 libevent-2.1-7t64 libpam0g libaudit1 libcap-ng0 \
		libsystemd0 libcap2 libssl3t64 libgcc-s1 libzstd1 zlib1g)
	for package in "$dir"/apt/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root"
	done
	rm -rf "$dir/apt"
}

case $verb in
start)
	port=$3 server=${4%/*} database=${4#*/} release=$5
	shift 5
	if [ "$release" = installed ]; then
		PATH=$PATH:/usr/sbin
		set -- "$(command -v pgbouncer || true)" "$@"
		[ -n "$1" ] || { echo "pgbouncer.sh: PgBouncer is not installed" >&2; exit 3; }
	else
		unpack "$release" >"$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; exit 1; }
		libraries=$root/usr/lib/x86_64-linux-gnu
		cat >"$dir/pgbouncer" <<-END
			#!/bin/sh
			exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/systemd" "$root/usr/sbin/pgbouncer" "\$@"
		END
		chmod +x "$dir/pgbouncer"
		set -- "$dir/pgbouncer" "$@"
	fi
	bouncer=$1
	shift
	target="host=${server%:*} port=${server#*:} dbname=$database user=postgres"
	{
		cat <<-END
			[databases]
			session = $target pool_mode=session pool_size=20
			transaction = $target pool_mode=transaction pool_size=4
			statement = $target pool_mode=statement pool_size=4
			single = $target pool_mode=transaction pool_size=1
			nowhere = host=127.0.0.1 port=1 user=postgres
			[pgbouncer]
			listen_addr = 127.0.0.1
			listen_port = $port
			unix_socket_dir =
			auth_type = any
			logfile = $dir/log
			pidfile = $dir/pid
		END
		printf '%s\n' "$@"
	} >"$dir/pgbouncer.ini"
	[ "$(id -u)" != 0 ] || chown postgres "$dir"
	own "$bouncer" --quiet --daemon "$dir/pgbouncer.ini" >"$dir/out" 2>&1 || { cat "$dir/out" >&2; exit 1; }
	for _ in $(seq 100); do
		if grep -q 'process up' "$dir/log" 2>"$dir/out"; then exit; fi
		sleep 0.05
	done
	echo "pgbouncer.sh: it does not come up at port $port" >&2
	exit 1
	;;
guard)
	cat >/dev/null
	if pid=$(cat "$dir/pid" 2>/dev/null); then
		kill -KILL "$pid" || true
	fi
	rm -rf "$dir"
	;;
*)
	sed -n 's/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
