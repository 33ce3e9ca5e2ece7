# The part that galera.sh and mysqlgroup.sh share: a cluster of three nodes in a directory. Node N keeps its data, socket
# and process id in DIR/N, and logs to DIR/N.log.
#
# The script sources this file, which sets verb and dir, and calls common_verb for verbs that it does not handle itself.

script=$(basename "$0")
verb=$1
dir=$2

# sql N STATEMENT
sql() { mariadb --no-defaults --user=root --socket="$dir/$1/socket" --batch --skip-column-names --execute="$2"; }

# signal_node SIGNAL N
signal_node() { [ ! -f "$dir/$2/pid" ] || kill -s "$1" "$(cat "$dir/$2/pid")" 2>/dev/null || true; }

# fail N MESSAGE: exit with the end of the node's log.
fail() {
	echo "$script: node $1 $2" >&2
	# Clients that try all the time fill the log with thousands of such warnings.
	grep -v 'Aborted connection' "$dir/$1.log" | tail -n 40 >&2
	exit 1
}

# common_verb N
common_verb() {
	case $verb in
	kill) signal_node KILL "$1" ;;
	freeze) signal_node STOP "$1" ;;
	guard)
		# The standard input ends with the test process, even if that is killed.
		cat >/dev/null
		# By their arguments: a process that ended while the nodes started has left a start, and nodes without a process id.
		pkill -KILL -f "start $dir " || true
		pkill -KILL -f "$dir/" || true
		rm -rf "$dir"
		;;
	*)
		sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
}
