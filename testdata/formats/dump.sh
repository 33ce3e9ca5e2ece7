#!/bin/bash
# Writes the rows that earlier versions have stored, and what they say is left: one file for each meaning that rows have had
# before tables had a registry. It builds those versions from the history of this repository.
#
#	testdata/formats/dump.sh
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'git worktree prune; rm -rf "$work"' EXIT

# dump COMMIT IMPORT DIALECT REQUEST CALL PRECISE writes COMMIT.json. REQUEST and CALL are how that version spells them.
dump() {
	git worktree add --quiet --detach "$work/$1" "$1"
	mkdir "$work/$1/runtime/sqlstore/livetest/dump"
	sed -e "s|//IMPORT|$2|; s|DIALECT|$3|; s|REQUEST|$4|; s|CALL|$5|; s|//PRECISE|$6|" dump.go.txt >"$work/$1/runtime/sqlstore/livetest/dump/main.go"
	(cd "$work/$1/runtime/sqlstore/livetest" && go run ./dump "$work/$1.db") >"$1.json"
	git worktree remove --force "$work/$1"
}

dump c686c6b '' sqlstore.SQLite 'runtime.Ask{Op: op, Count: n, Reserve: reserves}' 'runtime.Request{Ask: q, Policy: p, Key: "k"}' ''
dump 6003a5e '"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"' dialect.SQLite \
	'runtime.Request{Policy: p, Key: "k", Op: op, Count: n, Reserve: reserves}' q \
	'all = append(all, use{window("precise", runtime.SlidingWindow), 6}); all[len(all)-1].p.Precise, all[len(all)-1].p.Start = true, runtime.Start{}'
