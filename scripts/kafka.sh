#!/bin/sh
# kafka.sh: fetch the Apache Kafka that make test-kafka runs, and print its
# folder of jars. They come by Maven, as this machine has it set up, and each is
# held to its checksum whenever it is used: a jar that differs is not run.
# kafka.sh sums prints the checksums, for another version in pom.xml.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C
listed=scripts/kafka/SHA256SUMS
lib=.tools/kafka

fetch() { # fetch FOLDER
	rm -rf "$1"
	mvn -q -B -C -Dstyle.color=never -f scripts/kafka/pom.xml dependency:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory="$PWD/$1" >&2
}

sums() { # sums FOLDER, also where only Perl's tool is there (macOS)
	cd "$1" && if command -v sha256sum >/dev/null; then sha256sum -- *; else shasum -a 256 -- *; fi
}

if [ "${1:-}" = sums ]; then
	fetch $lib.new
	sums $lib.new
	exit
fi
if ! [ -d $lib ] || ! (sums $lib) | cmp -s - $listed; then
	fetch $lib.new
	if ! (sums $lib.new) | diff - $listed >&2; then
		echo "kafka.sh: what Maven brought (<) is not what $listed has (>)" >&2
		exit 1
	fi
	rm -rf $lib
	mv $lib.new $lib
fi
echo "$PWD/$lib"
