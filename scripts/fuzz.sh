#!/bin/sh
# fuzz.sh TIME: run every fuzz target in the tree, one after the other, for TIME each.
# (go test takes one target and one package at a time.)
set -eu
time=${1:-20s}
go=${GO:-go}
found=0
for dir in $("$go" list -f '{{.Dir}}' ./...); do
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing\.F).*/\1/p'); do
		found=$((found + 1))
		echo "== $target in ${dir#"$PWD"/}"
		(cd "$dir" && "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 5s .)
	done
done
if [ "$found" = 0 ]; then
	echo "no fuzz targets found" >&2
	exit 1
fi
echo "$found fuzz targets, $time each: nothing found"
