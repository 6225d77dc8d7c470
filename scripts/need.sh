#!/bin/sh
# need.sh go|redis|postgres|chromium|npm|prometheus|soc|cc|kafka: make sure that a tool is there. Where apt-get can be used
# (Debian, as root) it is installed; elsewhere the command to type is printed.
set -eu

install() { # install DEBIAN-PACKAGE BREW-PACKAGE
	if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
		echo "need.sh: installing $1" >&2
		apt-get update -qq >&2
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >&2
	elif command -v apt-get >/dev/null; then
		echo "$1 is missing: sudo apt-get install $1" >&2
		exit 1
	elif command -v brew >/dev/null; then
		echo "$2 is missing: brew install $2" >&2
		exit 1
	else
		echo "$1 is missing: install it with this system's package manager" >&2
		exit 1
	fi
}

case ${1:-} in
go)
	if ! command -v "${GO:-go}" >/dev/null; then
		echo "go is missing: Go 1.26 or newer, from https://go.dev/dl/ (macOS: brew install go)" >&2
		exit 1
	fi
	# Go 1.21 and later fetch the toolchain that go.mod asks for; an older one cannot read go.mod.
	minor=$("${GO:-go}" env GOVERSION | sed 's/^go1\.\([0-9]*\).*/\1/')
	if [ "$minor" -lt 26 ] 2>/dev/null && [ "$("${GO:-go}" env GOTOOLCHAIN)" = local ]; then
		echo "Go 1.26 or newer is needed, this is $("${GO:-go}" env GOVERSION): https://go.dev/dl/" >&2
		exit 1
	fi
	;;
redis)
	command -v redis-server >/dev/null || install redis-server redis
	;;
postgres)
	# Debian keeps initdb out of PATH, beside the version's other commands.
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || install postgresql postgresql
	command -v ps >/dev/null || install procps procps
	;;
chromium)
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || install chromium chromium
	;;
prometheus)
	command -v prometheus >/dev/null && command -v promtool >/dev/null || install prometheus prometheus
	command -v prometheus-alertmanager >/dev/null || command -v alertmanager >/dev/null || install prometheus-alertmanager alertmanager
	;;
soc)
	# Debian keeps rsyslogd in /usr/sbin, which is in root's PATH only.
	command -v rsyslogd >/dev/null || [ -x /usr/sbin/rsyslogd ] || install rsyslog rsyslog
	ls /usr/lib/*/rsyslog/lmnsd_gtls.so >/dev/null 2>&1 || ! command -v apt-get >/dev/null || install rsyslog-gnutls rsyslog
	command -v prometheus-alertmanager >/dev/null || command -v alertmanager >/dev/null || install prometheus-alertmanager alertmanager
	;;
npm)
	command -v npm >/dev/null || install npm node
	;;
cc)
	command -v "${CC:-cc}" >/dev/null || install build-essential gcc
	;;
kafka)
	# scripts/kafka.sh fetches it; what it takes is Maven, which brings a Java, and
	# a Java of 17 or newer.
	command -v mvn >/dev/null || install maven maven
	java=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
	if [ "${java:-0}" -lt 17 ]; then
		install default-jre-headless openjdk
	fi
	;;
*)
	echo "usage: need.sh go|redis|postgres|chromium|npm|prometheus|soc|cc|kafka" >&2
	exit 2
	;;
esac
