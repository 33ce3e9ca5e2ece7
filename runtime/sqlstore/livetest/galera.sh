#!/bin/sh
# Runs a Galera cluster of three MariaDB nodes on loopback, of a test's own: nothing outside DIR is
# touched, and nothing remains of it. Its data is not safe from a power failure; that it is from SIGKILL is
# what is tested.
#
#   galera.sh start DIR PORT   start the nodes; their SQL ports are PORT+1, PORT+2 and PORT+3
#   galera.sh kill DIR N       kill node N with SIGKILL
#   galera.sh rejoin DIR N     start node N again, and wait until it has caught up; in the environment, CLOCK=+10m has its
#                              clock 10 minutes ahead, for which it takes Debian's libfaketime
#   galera.sh freeze DIR N     stop node N with SIGSTOP
#   galera.sh thaw DIR N       continue node N, and wait until it has caught up
#   galera.sh guard DIR        wait for the end of the standard input; then kill all nodes and remove DIR
#
# SQL is spoken as root, without a password, in the database test. The status is 3 if the software that
# this takes is not installed: on Debian, mariadb-server, galera-4 and rsync.
set -eu

provider=/usr/lib/galera/libgalera_smm.so
verb=$1
dir=$2

# As root, the nodes run as mysql: a state transfer is refused to root.
account=$(id -un)
[ "$account" != root ] || account=mysql

require_software() {
	for tool in mariadbd mariadb-install-db mariadb rsync; do
		command -v "$tool" >/dev/null || { echo "galera.sh: $tool is not installed" >&2; exit 3; }
	done
	[ -e "$provider" ] || { echo "galera.sh: $provider is not there" >&2; exit 3; }
}

# group_port N: the first of three ports by which node N speaks to the others.
group_port() { echo $((port + 1 + 3 * $1)); }

# set_clock: have the next node's clock off by CLOCK, but not the one by which it measures time.
set_clock() {
	LD_PRELOAD=$(echo /usr/lib/*/faketime/libfaketimeMT.so.1)
	export LD_PRELOAD FAKETIME="$CLOCK" DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_FAKE_MONOTONIC=1
}

# start_node N OPTION...
start_node() {
	n=$1
	at=$(group_port "$n")
	shift
	[ -z "${CLOCK:-}" ] || set_clock
	setsid mariadbd --no-defaults --user="$account" --datadir="$dir/$n" --socket="$dir/$n/socket" \
		--pid-file="$dir/$n/pid" --bind-address=127.0.0.1 --port=$((port + n)) \
		--innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=2 --innodb-autoinc-lock-mode=2 \
		--binlog-format=ROW --wsrep-on=ON --wsrep-provider="$provider" --wsrep-sst-method=rsync \
		--wsrep-cluster-name="ratelimitgen$port" --wsrep-node-name="node$n" --wsrep-node-address="127.0.0.1:$at" \
		--wsrep-cluster-address="gcomm://127.0.0.1:$(group_port 1),127.0.0.1:$(group_port 2),127.0.0.1:$(group_port 3)" \
		--wsrep-provider-options="base_port=$at;gmcast.listen_addr=tcp://127.0.0.1:$at;ist.recv_addr=127.0.0.1:$((at + 1))" \
		--wsrep-sst-receive-address="127.0.0.1:$((at + 2))" "$@" \
		>>"$dir/$n.log" 2>&1 </dev/null &
}

sql() { mariadb --no-defaults --user=root --socket="$dir/$1/socket" --batch --skip-column-names --execute="$2"; }

# await_node N: wait until node N has all that the others have.
await_node() {
	for _ in $(seq 300); do
		case $(sql "$1" "SHOW STATUS LIKE 'wsrep_local_state_comment'" 2>/dev/null || true) in
		*Synced*) return ;;
		esac
		sleep 0.2
	done
	echo "galera.sh: node $1 has not joined" >&2
	tail -n 20 "$dir/$1.log" >&2
	exit 1
}

# signal_node SIGNAL N
signal_node() { [ ! -f "$dir/$2/pid" ] || kill -s "$1" "$(cat "$dir/$2/pid")" 2>/dev/null || true; }

case $verb in
start)
	require_software
	port=$3
	echo "$port" >"$dir/port"
	chown "$account" "$dir"
	mariadb-install-db --no-defaults --user="$account" --datadir="$dir/1" \
		--auth-root-authentication-method=normal >"$dir/install.log"
	cp -a "$dir/1" "$dir/2"
	cp -a "$dir/1" "$dir/3"
	start_node 1 --wsrep-new-cluster
	await_node 1
	# A user without a name would stand in for every user who may come from any host.
	sql 1 "DROP USER IF EXISTS ''@localhost"
	for n in 2 3; do
		start_node $n
		await_node $n
	done
	;;
kill)
	signal_node KILL "$3"
	;;
freeze)
	signal_node STOP "$3"
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
guard)
	cat >/dev/null
	for n in 1 2 3; do
		signal_node KILL $n
	done
	rm -rf "$dir"
	;;
*)
	sed -n 's/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
