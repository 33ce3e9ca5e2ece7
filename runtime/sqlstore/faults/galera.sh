#!/bin/sh
# Runs a Galera cluster of three MariaDB nodes on loopback for tests. All files are in DIR, which guard removes. The data
# survives SIGKILL, which is tested, but not a power failure.
#
#   galera.sh start DIR PORT   start the nodes; their SQL ports are PORT+1, PORT+2 and PORT+3
#   galera.sh kill DIR N       kill node N with SIGKILL
#   galera.sh stop DIR N       shut node N down, as for maintenance
#   galera.sh rejoin DIR N     start node N again, and wait until it has caught up. CLOCK=+10m in the environment sets its
#                              clock 10 minutes ahead, with Debian's libfaketime
#   galera.sh freeze DIR N     stop node N with SIGSTOP
#   galera.sh thaw DIR N       continue node N, and wait until it has caught up
#   galera.sh guard DIR        wait for the end of the standard input; then kill all nodes and remove DIR
#
# Clients connect as root, without a password, to the database test. The status is 3 if software is missing: on Debian, it
# is in the packages mariadb-server, galera-4 and rsync.
set -eu

. "$(dirname "$0")/cluster.sh"
provider=/usr/lib/galera/libgalera_smm.so

# As root, the nodes run as mysql, because root is refused state transfers.
account=$(id -un)
[ "$account" != root ] || account=mysql

require_software() {
	for tool in mariadbd mariadb-install-db mariadb rsync; do
		command -v "$tool" >/dev/null || { echo "galera.sh: $tool is not installed" >&2; exit 3; }
	done
	[ -e "$provider" ] || { echo "galera.sh: $provider does not exist" >&2; exit 3; }
}

# group_port N: the first of three ports for the traffic between nodes.
group_port() { echo $((port + 1 + 3 * $1)); }

# set_clock: move the clock of the next node by CLOCK, but not its monotonic clock.
set_clock() {
	LD_PRELOAD=$(echo /usr/lib/*/faketime/libfaketimeMT.so.1)
	export LD_PRELOAD FAKETIME="$CLOCK" DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_FAKE_MONOTONIC=1
}

# own_tmpdir N: print node N's directory of temporary tables. In a shared one, each MariaDB that starts removes those of
# all others.
own_tmpdir() {
	mkdir -p "$dir/$1.tmp"
	chown "$account" "$dir/$1.tmp"
	echo "$dir/$1.tmp"
}

# start_node N OPTION...
start_node() {
	n=$1
	at=$(group_port "$n")
	shift
	[ -z "${CLOCK:-}" ] || set_clock
	setsid mariadbd --no-defaults --user="$account" --datadir="$dir/$n" --tmpdir="$(own_tmpdir "$n")" --socket="$dir/$n/socket" \
		--pid-file="$dir/$n/pid" --bind-address=127.0.0.1 --port=$((port + n)) \
		--innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=2 --innodb-autoinc-lock-mode=2 \
		--binlog-format=ROW --wsrep-on=ON --wsrep-provider="$provider" --wsrep-sst-method=rsync \
		--wsrep-cluster-name="ratelimitgen$port" --wsrep-node-name="node$n" --wsrep-node-address="127.0.0.1:$at" \
		--wsrep-cluster-address="gcomm://127.0.0.1:$(group_port 1),127.0.0.1:$(group_port 2),127.0.0.1:$(group_port 3)" \
		--wsrep-provider-options="base_port=$at;gmcast.listen_addr=tcp://127.0.0.1:$at;ist.recv_addr=127.0.0.1:$((at + 1))" \
		--wsrep-sst-receive-address="127.0.0.1:$((at + 2))" "$@" \
		>>"$dir/$n.log" 2>&1 </dev/null &
}

# await_node N: wait until node N has caught up with the others.
await_node() {
	# A state transfer takes seconds, and on a machine that builds meanwhile over a minute.
	for _ in $(seq 900); do
		case $(sql "$1" "SHOW STATUS LIKE 'wsrep_local_state_comment'" 2>/dev/null || true) in
		*Synced*) return ;;
		esac
		sleep 0.2
	done
	fail "$1" "has not joined"
}

case $verb in
start)
	require_software
	port=$3
	echo "$port" >"$dir/port"
	chown "$account" "$dir"
	mariadb-install-db --no-defaults --user="$account" --datadir="$dir/1" --tmpdir="$(own_tmpdir 1)" \
		--auth-root-authentication-method=normal >"$dir/install.log"
	cp -a "$dir/1" "$dir/2"
	cp -a "$dir/1" "$dir/3"
	start_node 1 --wsrep-new-cluster
	await_node 1
	# On localhost, the anonymous user takes precedence over users of any host.
	sql 1 "DROP USER IF EXISTS ''@localhost"
	for n in 2 3; do
		start_node $n
		await_node $n
	done
	;;
stop)
	signal_node TERM "$3"
	# The node removes the file at the end.
	for _ in $(seq 300); do
		[ -e "$dir/$3/pid" ] || exit 0
		sleep 0.1
	done
	fail "$3" "has not stopped"
	;;
thaw)
	signal_node CONT "$3"
	await_node "$3"
	;;
rejoin)
	port=$(cat "$dir/port")
	start_node "$3"
	await_node "$3"
	;;
*) common_verb "${3:-}" ;;
esac
