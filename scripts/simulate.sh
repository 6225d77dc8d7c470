#!/bin/sh
# Measures detection for the README: guardd simulate on seeds that it was not
# tuned on, and on one that it was, into docs/simulate. cmd/figures reads that.
# Interrupted, it goes on where it was: what is done waits in docs/simulate/.new.
set -eu
guardd=$1
out=docs/simulate/.new
mkdir -p $out
attacks="low-and-slow spray-common-password hammer botnet-one-account interleaved-success hoarded-success
	ipv6-rotation lockout-attack canary on-off"
cases="office-at-nine carrier-nat stale-app reset-day flash-crowd auth-outage auth-outage-failing"
of() { for s in "$@"; do echo "--scenario $s"; done; }

# into FILE FLAGS...: only a whole measurement is one.
into() {
	file=$out/$1.jsonl
	shift
	[ -e "$file" ] && return
	echo "$file: guardd simulate --json $*" >&2
	"$guardd" simulate --json "$@" >"$file.part" && mv "$file.part" "$file"
}

# shellcheck disable=SC2046 # scenarios are words
measure() {
	into stuffing --seed 4001 --scenario stuffing-8000x4 --timeline
	into stuffing-static --seed 4001 --scenario stuffing-8000x4 --timeline --static
	into attacks --seed 4001 $(of $attacks)
	into cases --seed 4001 $(of $cases)
	into static --seed 4001 --static $(of $attacks)
	into solvers --seed 4001 --solvers 1 $(of stuffing-8000x4 $attacks)
	into figures --seed 4001 --scenario hammer --attacks 40 --events 40
	into tuned --seed 1 $(of stuffing-8000x4 low-and-slow spray-common-password)
}
measure
mv $out/*.jsonl docs/simulate/
rmdir $out
