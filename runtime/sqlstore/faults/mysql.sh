#!/bin/sh
# Runs a MySQL server on loopback. Debian has MySQL only in unstable, so its packages and their libraries are unpacked into
# DIR and run from there. Nothing is installed.
#
#   mysql.sh start DIR PORT   download the server if it is not in DIR, start it at PORT, and wait until it answers
#
# The user is root, without a password, and the database test. The server keeps running when the script ends. Its data is
# in DIR/data.
set -eu
. "$(dirname "$0")/debian.sh"

[ "$#" = 3 ] && [ "$1" = start ] || { sed -n 's/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
port=$3
root=$dir/root

# unpack: download the packages of the server from unstable, without changing the installed packages.
unpack() {
	rm -rf "$dir/apt" "$root"
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/root.new"
	: >"$dir/apt/status"
	debian_sources unstable >"$dir/apt/unstable.sources"
	set -- -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/apt/" -o Dir::State::Lists="$dir/apt/lists" \
		-o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User=root
	apt-get "$@" update
	apt-get "$@" -y --download-only --no-install-recommends -o Debug::NoLocking=1 install mysql-server-core
	for package in "$dir"/apt/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir/root.new"
	done
	rm -rf "$dir/apt"
	mv "$dir/root.new" "$root"
}

# mysqld OPTION...: run the server, with its own loader and libraries.
mysqld() {
	"$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/sbin/mysqld" \
		--no-defaults --user="$(id -un)" --datadir="$dir/data" --lc-messages-dir="$root/usr/share/mysql" \
		--character-sets-dir="$root/usr/share/mysql/charsets" --plugin-dir="$root/usr/lib/mysql/plugin" \
		--secure-file-priv=NULL "$@"
}

answers() { mariadb --no-defaults --host=127.0.0.1 --port="$port" --user=root --connect-timeout=2 "$@" 2>/dev/null; }

[ -d "$root" ] || unpack
[ -d "$dir/data" ] || mysqld --initialize-insecure 2>"$dir/install.log" || { cat "$dir/install.log" >&2; exit 1; }
mysqld --bind-address=127.0.0.1 --port="$port" --socket="$dir/socket" --mysqlx=OFF --pid-file="$dir/pid" \
	>"$dir/log" 2>&1 </dev/null &
for _ in $(seq 120); do
	if answers --execute='CREATE DATABASE IF NOT EXISTS test'; then exit; fi
	sleep 0.5
done
echo "mysql.sh: the server does not answer at port $port" >&2
tail -n 20 "$dir/log" >&2
exit 1
