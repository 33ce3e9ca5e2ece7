#!/bin/sh
# Runs a Vitess cluster on loopback for tests: the keyspace test, which is not sharded, the keyspace split with the shards -80 and 80-,
# and two vtgates. Each of the three has two servers of MySQL with a vttablet each, of which the first is the primary at the start: 1
# and 2 of test, 3 and 4 of -80, 5 and 6 of 80-. Those of split wait for their replicas. All files are in DIR, which guard removes.
#
#   vitess.sh get                build the programs, which takes two cores some minutes, unless they are built
#   vitess.sh start DIR PORT     start the cluster; the SQL ports of the vtgates are PORT+1 and PORT+2
#   vitess.sh durability DIR P   set the durability policy of split
#   vitess.sh primary DIR N      make server N the primary of its shard
#   vitess.sh kill DIR NAME      kill gate1, gate2, tablet1 ... or server1 ... with SIGKILL
#   vitess.sh freeze DIR NAME    stop it with SIGSTOP, so that it does not answer
#   vitess.sh thaw DIR NAME      let it go on
#   vitess.sh rejoin DIR NAME    start it again, and wait until it answers
#   vitess.sh reshard DIR        split -80 and 80- into -40, 40-80, 80-c0 and c0-, which have the servers 7 to 14, two each
#   vitess.sh guard DIR          wait for the end of the standard input; then kill everything and remove DIR
#
# Clients connect as root, without a password, to the database test or split. Vitess has no packages of Debian: get builds it from its source,
# and unpacks etcd, into RATELIMITGEN_VITESS_DIR, by default ~/.cache/ratelimitgen-vitess. mysql.sh must have unpacked the server into
# RATELIMITGEN_MYSQL_DIR, by default ~/.cache/ratelimitgen-mysql. The status of start is 3 if one of both is missing.
set -eu

version=v0.24.4
programs="mysqlctl vtctld vtctldclient vtgate vttablet"
verb=${1:-}
cache=${RATELIMITGEN_VITESS_DIR:-$HOME/.cache/ratelimitgen-vitess}
mysql=${RATELIMITGEN_MYSQL_DIR:-$HOME/.cache/ratelimitgen-mysql}/root
bin=$cache/bin

get() {
	mkdir -p "$cache/build" "$bin"
	cd "$cache/build"
	if [ ! -e "$bin/etcd" ]; then
		apt-get download -qq -o APT::Sandbox::User=root etcd-server
		dpkg-deb --fsys-tarfile etcd-server_*.deb | tar -x ./usr/bin/etcd
		mv usr/bin/etcd "$bin/"
	fi
	missing=
	for program in $programs; do [ -e "$bin/$program" ] || missing=$program; done
	[ "$missing" ] || return 0
	[ -e go.mod ] || go mod init build
	for program in $programs; do go get -tool "vitess.io/vitess/go/cmd/$program@$version"; done
	go mod tidy
	rm -rf "$cache/config"
	cp -r "$(go list -m -f '{{.Dir}}' vitess.io/vitess)/config" "$cache/config"
	chmod -R u+w "$cache/config"
	# MySQL 9 refuses this setting.
	sed -i /innodb_log_file_size/d "$cache"/config/mycnf/*.cnf
	go build -o "$bin/" $(for program in $programs; do echo "vitess.io/vitess/go/cmd/$program"; done)
}

# wrap: give the programs that mysqlctl runs the names under which it looks for them.
wrap() {
	ln -sf "$(command -v mariadb)" "$bin/mysql"
	ln -sf "$(command -v mariadb-admin)" "$bin/mysqladmin"
	cat >"$bin/mysqld" <<-SCRIPT
		#!/bin/sh
		exec "$mysql/usr/lib64/ld-linux-x86-64.so.2" --library-path "$mysql/usr/lib/x86_64-linux-gnu" "$mysql/usr/sbin/mysqld" "\$@" \\
			--lc-messages-dir="$mysql/usr/share/mysql" --character-sets-dir="$mysql/usr/share/mysql/charsets" \\
			--plugin-dir="$mysql/usr/lib/mysql/plugin" --secure-file-priv=NULL
	SCRIPT
	chmod +x "$bin/mysqld"
}

# own COMMAND...: run a command as a user other than root, because Vitess refuses to run as root. It may still read what only root may,
# such as the programs in its home directory.
own() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override "$@"
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

# shard N: the keyspace and the shard of server N.
shard() {
	case $1 in
	1 | 2) echo test/0 ;;
	3 | 4) echo split/-80 ;;
	5 | 6) echo split/80- ;;
	7 | 8) echo split/-40 ;;
	9 | 10) echo split/40-80 ;;
	11 | 12) echo split/80-c0 ;;
	13 | 14) echo split/c0- ;;
	esac
}

ctl() { client --server internal $topology "$@"; }

client() { own "$bin/vtctldclient" --log-format text "$@"; }

# start_one NAME
start_one() {
	n=${1##*[a-z]}
	common="$topology --bind-address 127.0.0.1 --grpc-bind-address 127.0.0.1 --log-format text"
	case $1 in
	gate*)
		in_background "$1" "$bin/vtgate" $common --cell zone --cells-to-watch zone --tablet-types-to-wait PRIMARY --port $((port + 4 + n)) \
			--mysql-server-port $((port + n)) --mysql-server-bind-address 127.0.0.1 --mysql-auth-server-impl none --enable-buffer \
			--vschema-ddl-authorized-users %
		;;
	tablet*)
		in_background "$1" "$bin/vttablet" $common --tablet-path "zone-$n" --tablet-hostname 127.0.0.1 \
			--init-keyspace "$(dirname "$(shard "$n")")" --init-shard "$(basename "$(shard "$n")")" --init-tablet-type replica \
			--health-check-interval 1s --port $((port + 4 + 3 * n)) --grpc-port $((port + 5 + 3 * n)) \
			--service-map grpc-queryservice,grpc-tabletmanager,grpc-updatestream --queryserver-config-transaction-cap 100 \
			--queryserver-config-pool-size 50 --twopc-abandon-age 4s
		;;
	esac
}

# new_server N: make and start server N with its vttablet.
new_server() {
	own "$bin/mysqlctl" --tablet-uid "$1" --mysql-port $((port + 6 + 3 * $1)) --log-format text init >"$dir/mysqlctl$1.log" 2>&1 ||
		{ tail -n 20 "$dir/mysqlctl$1.log" >&2; exit 1; }
	start_one "tablet$1"
}

# new_primary N: wait until server N is the primary of its shard.
new_primary() { await "$(shard "$1") has no primary" ctl PlannedReparentShard "$(shard "$1")" --new-primary "zone-$1"; }

# reshard VERB...: a command about the workflow of resharding, by a server, without which vtctldclient cannot reach a tablet.
reshard() { client --server "127.0.0.1:$((port + 51))" Reshard --workflow wider --target-keyspace split "$@" >>"$dir/ctl.log" 2>&1; }

# copied: the new shards have all rows, and follow the old ones.
copied() { [ "$(ctl Workflow --keyspace split show --workflow wider --include-logs=false | grep -c '"state": "Running"')" = 4 ]; }

# await WHAT COMMAND...: wait until a command succeeds.
await() {
	what=$1
	shift
	for _ in $(seq 120); do
		if "$@" >"$dir/await.log" 2>&1; then return; fi
		sleep 0.5
	done
	tail -n 20 "$dir"/*.log >&2
	echo "vitess.sh: $what" >&2
	exit 1
}

# writes N: reach the primaries through vtgate N.
writes() {
	for keyspace in test split; do query "$1" $keyspace 'CREATE TABLE IF NOT EXISTS vitess_sh (id INT PRIMARY KEY)' || return; done
	for target in test split:-80 split:80-; do query "$1" $target 'DELETE FROM vitess_sh' || return; done
}

# query N DATABASE STATEMENT
query() {
	mariadb --no-defaults --host=127.0.0.1 --port=$((port + $1)) --user=root --connect-timeout=2 --database="$2" --execute="$3"
}

case $verb in
get)
	get
	exit
	;;
start | durability | primary | kill | freeze | thaw | rejoin | reshard | guard) dir=$(cd "$2" && pwd) ;;
*)
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
[ "$verb" = start ] && echo "$3" >"$dir/port"
port=$(cat "$dir/port" 2>/dev/null || echo 0)
export VTROOT="$cache" VTDATAROOT="$dir" VT_MYSQL_ROOT="$cache" EXTRA_MY_CNF="$dir/extra.cnf" HOME="$dir"
etcd=http://127.0.0.1:$((port + 3)) peer=http://127.0.0.1:$((port + 4))
topology="--topo-implementation etcd2 --topo-global-server-address ${etcd#http://} --topo-global-root /vitess/global"

case $verb in
start)
	[ -e "$bin/vtctld" ] || { echo "vitess.sh: no programs in $bin: run vitess.sh get" >&2; exit 3; }
	[ -e "$mysql" ] || { echo "vitess.sh: no server in $mysql: see mysql.sh" >&2; exit 3; }
	wrap
	printf 'innodb_buffer_pool_size = 64M\nperformance_schema = OFF\nmysqlx = OFF\n' >"$dir/extra.cnf"
	[ "$(id -u)" != 0 ] || chown -R 65534 "$dir"
	in_background etcd "$bin/etcd" --data-dir "$dir/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
		--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
	await "etcd does not answer" ctl GetCellInfoNames
	ctl AddCellInfo --root /vitess/zone --server-address "${etcd#http://}" zone >>"$dir/ctl.log" 2>&1
	ctl CreateKeyspace --durability-policy none test >>"$dir/ctl.log" 2>&1
	ctl CreateKeyspace --durability-policy semi_sync split >>"$dir/ctl.log" 2>&1
	ctl ApplyVSchema --vschema '{"sharded": true}' split >>"$dir/ctl.log" 2>&1
	for n in 1 2 3 4 5 6; do new_server $n; done
	for n in 1 3 5; do new_primary $n; done
	for n in 1 2; do start_one gate$n; done
	for n in 1 2; do await "vtgate $n does not answer" writes $n; done
	;;
durability) ctl SetKeyspaceDurabilityPolicy --durability-policy "$3" split ;;
primary) ctl PlannedReparentShard "$(shard "$3")" --new-primary "zone-$3" ;;
kill)
	case $3 in
	server*) kill -s KILL "$(cat "$dir/$(printf vt_%010d "${3#server}")/mysql.pid")" ;;
	*) kill -s KILL "$(cat "$dir/$3.pid")" ;;
	esac
	;;
freeze) kill -s STOP "$(cat "$dir/$3.pid")" ;;
thaw) kill -s CONT "$(cat "$dir/$3.pid")" ;;
rejoin)
	case $3 in
	server*)
		n=${3#server}
		await "server $n does not start" own "$bin/mysqlctl" --tablet-uid "$n" --mysql-port $((port + 6 + 3 * n)) --log-format text start
		await "server $n is not writable" ctl SetWritable "zone-$n" true
		# A tablet prepares the transactions again that were to be committed in two phases when it starts, if its server is writable.
		kill -s KILL "$(cat "$dir/tablet$n.pid")"
		start_one "tablet$n"
		;;
	*) start_one "$3" ;;
	esac
	for n in 1 2; do await "$3 does not answer" writes $n; done
	;;
reshard)
	for n in 7 8 9 10 11 12 13 14; do new_server $n; done
	for n in 7 9 11 13; do new_primary $n; done
	# The vschema has no such table, by which its rows could be distributed.
	query 1 split 'DROP TABLE vitess_sh'
	in_background vtctld "$bin/vtctld" $topology --bind-address 127.0.0.1 --grpc-bind-address 127.0.0.1 --log-format text \
		--port $((port + 50)) --grpc-port $((port + 51)) --service-map grpc-vtctl,grpc-vtctld
	await "vtctld does not answer" client --server "127.0.0.1:$((port + 51))" GetKeyspaces
	reshard create --source-shards=-80,80- --target-shards=-40,40-80,80-c0,c0-
	await "the new shards do not follow the old ones" copied
	reshard SwitchTraffic
	reshard complete
	;;
guard)
	# The standard input ends with the test process, even if that is killed.
	cat >/dev/null
	# By its arguments: a test process that ended while the servers started has left a start.
	pkill -KILL -f "start $dir " || true
	for pid in "$dir"/*.pid "$dir"/vt_*/mysql.pid; do
		[ ! -e "$pid" ] || kill -s KILL "$(cat "$pid")" 2>/dev/null || true
	done
	# A server that had no process id yet.
	pkill -KILL -f "$dir/" || true
	rm -rf "$dir"
	;;
esac
