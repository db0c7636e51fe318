#!/usr/bin/env bash
# rsyslog 8.2302 (Debian 12), mmjsonparse: different integers above 2^63-1 become one and the same.
#
# Expected: JSON's numbers have no bound (RFC 8259), and libfastjson, the parser, keeps the text of floating-point numbers (1.10, 1e400) to
# write it again as it came.
# Observed: each integer from 2^63 on is 9223372036854775807 in $!all-json, from which outputs are written. No error is
# logged.
#
# Why it matters: ids of traces and hashes are unsigned integers of 64 bits, half of which are above that bound. Behind a
# relay with rsyslog all of these are equal, and events of different traces are joined.
set -euo pipefail
dir=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$dir"' EXIT
chmod 755 "$dir"
cd "$dir"
want='8.2302.0-1+deb12u2'
has=$(apt-cache policy rsyslog | awk '/Candidate:/ { print $2 }')
[ "$has" = "$want" ] || { echo "this finding is about rsyslog $want, which apt-get would install; it has '$has' (apt-get update?)"; exit 1; }
mkdir debs
(cd debs && apt-get -qq download "rsyslog=$want" libestr0 libfastjson4 liblognorm5 2>/dev/null)
for deb in debs/*.deb; do dpkg -x "$deb" root; done
libs=$dir/root/usr/lib/x86_64-linux-gnu
cat > rsyslog.conf <<C
global(workDirectory="$dir")
module(load="imfile" mode="polling" pollingInterval="1")
module(load="mmjsonparse")
input(type="imfile" file="$dir/in.log" tag="app:")
template(name="all" type="string" string="%\$!all-json%\n")
action(type="mmjsonparse" cookie="")
action(type="omfile" file="$dir/out" template="all")
C
cat > in.log <<'J'
{"trace": 9223372036854775807, "f": 1.10}
{"trace": 9223372036854775808, "f": 12345678901234567890.5}
{"trace": 12345678901234567890, "f": 1e400}
{"trace": 18446744073709551615}
J
LD_LIBRARY_PATH=$libs root/usr/sbin/rsyslogd -n -M "$libs/rsyslog" -f rsyslog.conf -i "$dir/pid" > log 2>&1 &
daemon=$!
touch out
for _ in $(seq 100); do [ "$(wc -l < out)" -ge 4 ] && break; sleep 0.1; done
kill "$daemon"
wait "$daemon" || true
daemon=
{ echo "rsyslog $want"; cat log; sed 's/"metadata": {[^}]*}, //' out; } | tee answer
diff -u - answer <<'END' || { echo "the behaviour has changed"; exit 1; }
rsyslog 8.2302.0-1+deb12u2
{ "trace": 9223372036854775807, "f": 1.10 }
{ "trace": 9223372036854775807, "f": 12345678901234567890.5 }
{ "trace": 9223372036854775807, "f": 1e400 }
{ "trace": 9223372036854775807 }
END
