#!/bin/sh
# Runs two members of a Patroni cluster and their etcd on loopback for tests. All files are in DIR, which guard removes. One
# member is the primary, and the other one its synchronous standby, which Patroni promotes by itself.
#
#   patroni.sh start DIR PORT  start the members, whose SQL ports are PORT+1 and PORT+2; etcd is at PORT and PORT+3, and the
#                              members' own interfaces are at PORT+4 and PORT+5
#   patroni.sh primary DIR     print which member is the primary, 1 or 2
#   patroni.sh kill DIR N      kill member N with SIGKILL, as if its machine had failed
#   patroni.sh rejoin DIR N    start member N again, and wait until it is the synchronous standby
#   patroni.sh guard DIR       wait for the end of the standard input; then kill everything and remove DIR
#
# The user is postgres, without a password, and the database postgres. The status is 3 if software is missing: on Debian,
# it is in the packages patroni, python3-etcd, etcd-server, curl and postgresql.
set -eu

verb=$1
dir=$2
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
PATH=$PATH:$bin

# own COMMAND...: run a command as a user other than root, because Postgres refuses to run as root.
own() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- env PATH="$PATH" "$@"
	else
		"$@"
	fi
}

# in_background NAME COMMAND...: run a command that logs to DIR/NAME.log, with its process id in DIR/NAME.pid.
in_background() {
	name=$1
	shift
	(own setsid sh -c 'echo $$ >"$0"; exec "$@"' "$dir/$name.pid" "$@") >>"$dir/$name.log" 2>&1 </dev/null &
}

start_member() { in_background "member$1" patroni "$dir/member$1.yml"; }

# kill_member N
kill_member() {
	leader=$(head -n 1 "$dir/$1/postmaster.pid" 2>/dev/null || true)
	[ -z "$leader" ] || children=$(cat "/proc/$leader/task"/*/children 2>/dev/null || true)
	# Patroni first, because it would start Postgres again.
	for pid in $(cat "$dir/member$1.pid" 2>/dev/null) $leader ${children:-}; do
		kill -s KILL "$pid" 2>/dev/null || true
	done
}

# query N STATEMENT
query() {
	psql --host=127.0.0.1 --port=$((port + $1)) --username=postgres --no-align --tuples-only --command="$2" 2>&1 || true
}

primary() {
	for n in 1 2; do
		[ "$(query $n 'SELECT pg_is_in_recovery()')" != f ] || echo $n
	done
}

# await_standby: wait until Patroni would promote a member if the primary failed.
await_standby() {
	for _ in $(seq 300); do
		for n in 1 2; do
			! curl --silent --fail --output "$dir/answer" "http://127.0.0.1:$((port + 3 + n))/sync" || return 0
		done
		sleep 0.2
	done
	echo "patroni.sh: there is no synchronous standby" >&2
	for log in "$dir"/*.log; do
		tail -n 20 "$log" >&2
	done
	exit 1
}

case $verb in
start)
	port=$3
	for tool in patroni etcd curl "${bin:-/usr/lib/postgresql}/initdb"; do
		command -v "$tool" >/dev/null || { echo "patroni.sh: $tool is not installed" >&2; exit 3; }
	done
	echo "$port" >"$dir/port"
	[ "$(id -u)" != 0 ] || chown postgres "$dir"
	in_background etcd etcd --data-dir="$dir/etcd" --unsafe-no-fsync \
		--listen-client-urls="http://127.0.0.1:$port" --advertise-client-urls="http://127.0.0.1:$port" \
		--listen-peer-urls="http://127.0.0.1:$((port + 3))" --initial-advertise-peer-urls="http://127.0.0.1:$((port + 3))" \
		--initial-cluster="default=http://127.0.0.1:$((port + 3))"
	for n in 1 2; do
		cat >"$dir/member$n.yml" <<-END
			scope: ratelimitgen
			name: member$n
			restapi: {listen: "127.0.0.1:$((port + 3 + n))", connect_address: "127.0.0.1:$((port + 3 + n))"}
			etcd3: {host: "127.0.0.1:$port"}
			bootstrap:
			  dcs:
			    ttl: 20
			    loop_wait: 2
			    retry_timeout: 5
			    synchronous_mode: true
			    postgresql:
			      use_pg_rewind: true
			      parameters: {max_connections: 100, wal_log_hints: "on"}
			  initdb: [{encoding: UTF8}, {locale: C}]
			postgresql:
			  listen: "127.0.0.1:$((port + n))"
			  connect_address: "127.0.0.1:$((port + n))"
			  data_dir: "$dir/$n"
			  bin_dir: "$bin"
			  pgpass: "$dir/pgpass$n"
			  pg_hba: [host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
			  parameters: {unix_socket_directories: ""}
			  authentication:
			    superuser: {username: postgres}
			    replication: {username: postgres}
			    rewind: {username: postgres}
		END
		start_member $n
	done
	await_standby
	;;
primary | rejoin)
	port=$(cat "$dir/port")
	[ "$verb" != primary ] || { primary; exit; }
	start_member "$3"
	await_standby
	;;
kill) kill_member "$3" ;;
guard)
	cat >/dev/null
	kill_member 1
	kill_member 2
	kill -s KILL "$(cat "$dir/etcd.pid" 2>/dev/null)" 2>/dev/null || true
	rm -rf "$dir"
	;;
*)
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
