#!/bin/sh
# Runs an HAProxy on loopback for tests, in front of servers on loopback. All files are in DIR, which guard removes.
#
#   haproxy.sh start DIR PORT KIND SERVER...
#                        start it at PORT, in front of the servers at these ports, and wait until it has a server
#   haproxy.sh guard DIR  wait for the end of the standard input; then kill it and remove DIR
#
# KIND is postgres, where only the primary gets connections; galera, where all nodes do that have caught up; or
# galera-single, where one of them does at a time. HAProxy checks each server every half second by a query, and closes the
# connections to one that fails twice. The status is 3 if HAProxy is not installed; Debian's package is haproxy.
set -eu

verb=$1
dir=$2

case $verb in
start)
	port=$3 kind=$4
	shift 4
	PATH=$PATH:/usr/sbin
	haproxy=$(command -v haproxy) || { echo "haproxy.sh: HAProxy is not installed" >&2; exit 3; }
	case $kind in
	postgres) check='[ "$(psql --host="$3" --port="$4" --username=postgres --no-align --tuples-only --command="SELECT NOT pg_is_in_recovery()" postgres)" = t ]' ;;
	galera*) check='[ "$(mariadb --no-defaults --host="$3" --port="$4" --user=root --connect-timeout=1 --batch --skip-column-names --execute="SHOW STATUS LIKE '\''wsrep_local_state_comment'\''" | cut -f 2)" = Synced ]' ;;
	esac
	printf '#!/bin/sh\necho >>"%s/checked$4"\n%s\n' "$dir" "$check" >"$dir/check"
	chmod +x "$dir/check"
	{
		cat <<-END
			global
			    external-check
			    insecure-fork-wanted
			    pidfile $dir/pid
			    stats socket $dir/stats
			defaults
			    mode tcp
			    timeout connect 1s
			    timeout check 10s
			    timeout client 1h
			    timeout server 1h
			    option redispatch
			listen database
			    bind 127.0.0.1:$port
			    balance leastconn
			    option external-check
			    external-check path $PATH
			    external-check command $dir/check
			    default-server check inter 500ms fall 2 rise 1 init-addr last on-marked-down shutdown-sessions
		END
		# Without this, connections stay at a backup when the first node is back.
		role='on-marked-up shutdown-backup-sessions'
		for server in "$@"; do
			[ "$kind" = galera-single ] || role=
			echo "    server at$server 127.0.0.1:$server $role"
			role=backup
		done
	} >"$dir/haproxy.cfg"
	"$haproxy" -D -f "$dir/haproxy.cfg" >"$dir/log" 2>&1 </dev/null || { cat "$dir/log" >&2; exit 1; }
	for _ in $(seq 600); do
		sleep 0.1
		# Until two checks have failed, HAProxy assumes that a server is up.
		unchecked=
		for server in "$@"; do
			[ "$(cat "$dir/checked$server" 2>"$dir/check.log" | wc -l)" -ge 3 ] || unchecked=$server
		done
		if [ -z "$unchecked" ] && "$dir/check" - - 127.0.0.1 "$port" >"$dir/check.log" 2>&1; then exit; fi
	done
	echo "haproxy.sh: no server answers at port $port" >&2
	cat "$dir/check.log" >&2
	exit 1
	;;
guard)
	cat >/dev/null
	if pid=$(cat "$dir/pid" 2>/dev/null); then
		kill -KILL $pid || true
	fi
	rm -rf "$dir"
	;;
*)
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
