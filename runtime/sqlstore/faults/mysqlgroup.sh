#!/bin/sh
# Runs a MySQL group of three primaries (Group Replication in multi-primary mode) on loopback for tests. All files are in
# DIR, which guard removes.
#
#   mysqlgroup.sh start DIR PORT   start the nodes; their SQL ports are PORT+1, PORT+2 and PORT+3
#   mysqlgroup.sh kill DIR N       kill node N with SIGKILL
#   mysqlgroup.sh rejoin DIR N     start node N again, and wait until it is in the group
#   mysqlgroup.sh freeze DIR N     stop node N with SIGSTOP
#   mysqlgroup.sh thaw DIR N       continue node N, and wait until it is in the group
#   mysqlgroup.sh guard DIR        wait for the end of the standard input; then kill all nodes and remove DIR
#
# Clients connect as root, without a password, to the database test. mysql.sh must have unpacked the server into
# RATELIMITGEN_MYSQL_DIR, by default ~/.cache/ratelimitgen-mysql. The status is 3 if it has not.
set -eu

. "$(dirname "$0")/cluster.sh"
root=${RATELIMITGEN_MYSQL_DIR:-$HOME/.cache/ratelimitgen-mysql}/root

# mysqld OPTION...: run the server, with its own loader and libraries.
mysqld() {
	exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/sbin/mysqld" \
		--no-defaults --user="$(id -un)" --lc-messages-dir="$root/usr/share/mysql" \
		--character-sets-dir="$root/usr/share/mysql/charsets" --plugin-dir="$root/usr/lib/mysql/plugin" \
		--secure-file-priv=NULL --mysqlx=OFF --innodb-buffer-pool-size=32M "$@"
}

# group_port N: the port for the traffic between nodes.
group_port() { echo $((port + 3 + $1)); }

# start_node N BOOT: BOOT is ON if the node joins the group by itself. Until then it is read-only, because its own writes
# would keep it out of the group.
start_node() {
	n=$1
	cd "$dir"
	# A killed node leaves them behind, and the process ID in the lock may be that of another process by now.
	rm -f "$dir/$n/socket" "$dir/$n/socket.lock"
	(mysqld --datadir="$dir/$n" --socket="$dir/$n/socket" --pid-file="$dir/$n/pid" --bind-address=127.0.0.1 --port=$((port + n)) \
		--server-id="$n" --report-host=127.0.0.1 --gtid-mode=ON --enforce-gtid-consistency=ON --log-bin=binlog --skip-replica-start \
		--innodb-flush-log-at-trx-commit=2 --sync-binlog=0 --plugin-load-add=group_replication.so \
		--loose-group-replication-group-name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa --loose-group-replication-start-on-boot="$2" --super-read-only=ON \
		--loose-group-replication-local-address="127.0.0.1:$(group_port "$n")" \
		--loose-group-replication-group-seeds="127.0.0.1:$(group_port 1),127.0.0.1:$(group_port 2),127.0.0.1:$(group_port 3)" \
		--loose-group-replication-single-primary-mode=OFF --loose-group-replication-enforce-update-everywhere-checks=ON \
		--loose-group-replication-recovery-get-public-key=ON --loose-group-replication-member-expel-timeout=0 \
		--loose-group-replication-exit-state-action=READ_ONLY \
		>>"$dir/$n.log" 2>&1 </dev/null) &
	for _ in $(seq 120); do
		if sql "$n" "SELECT 1" >/dev/null 2>&1; then return; fi
		sleep 0.5
	done
	fail "$n" "does not answer"
}

state() {
	sql "$1" "SELECT member_state FROM performance_schema.replication_group_members WHERE member_id = @@server_uuid OR member_id = ''" \
		2>/dev/null || true
}

# await_node N: wait until node N is in the group. If it has been expelled and does not come back, start it again.
await_node() {
	for try in $(seq 240); do
		case $(state "$1") in
		ONLINE) return ;;
		ERROR | OFFLINE)
			if [ $((try % 60)) = 0 ]; then
				signal_node KILL "$1"
				sleep 1
				start_node "$1" ON
			fi
			;;
		esac
		sleep 0.5
	done
	fail "$1" "has not joined"
}

case $verb in
start)
	[ -e "$root/usr/lib/mysql/plugin/group_replication.so" ] || { echo "mysqlgroup.sh: no server in $root: see mysql.sh" >&2; exit 3; }
	port=$3
	echo "$port" >"$dir/port"
	cat >"$dir/init.sql" <<-END
		CREATE DATABASE test;
		CREATE USER joiner IDENTIFIED BY 'joiner';
		GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO joiner;
	END
	(mysqld --initialize-insecure --datadir="$dir/1" --init-file="$dir/init.sql") >"$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; exit 1; }
	rm "$dir/1/auto.cnf"
	cp -a "$dir/1" "$dir/2"
	cp -a "$dir/1" "$dir/3"
	for n in 1 2 3; do
		start_node $n OFF
		sql $n "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'joiner', SOURCE_PASSWORD = 'joiner' FOR CHANNEL 'group_replication_recovery'"
		[ $n != 1 ] || sql 1 "SET GLOBAL group_replication_bootstrap_group = ON"
		sql $n "START GROUP_REPLICATION; SET GLOBAL group_replication_bootstrap_group = OFF"
		await_node $n
	done
	;;
rejoin)
	port=$(cat "$dir/port")
	start_node "$3" ON
	await_node "$3"
	;;
thaw)
	signal_node CONT "$3"
	port=$(cat "$dir/port")
	sleep 5 # a node that was expelled may not have noticed before
	await_node "$3"
	;;
*) common_verb "${3:-}" ;;
esac
