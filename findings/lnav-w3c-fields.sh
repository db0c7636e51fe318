#!/usr/bin/env bash
# lnav 0.11.1 (Debian 12) reads lines of W3C logs by a header that no longer holds, and takes times of all zones for one zone.
#
# Expected, by the W3C's draft on extended logs: a line #Fields names the fields of the lines that follow it; there may be several in a file.
# IIS writes one each time it starts. In the log of Apache the time has its zone.
# Observed:
# - behind a second #Fields with other columns the first one is used: c_ip is "GET", cs_uri_stem is "x=1", and sc_status is 192,
#   the beginning of the address.
# - 12:00:00 +0530 and 12:00:00 +0000 are the same log_time, so that an event of 12:00:00 +0530 stands behind one of
#   11:00:00 +0000, four and a half hours too late. A time of RFC 5424 with +05:30 stands beside one with Z. No error is shown.
#
# Why it matters: lnav is used to merge the logs of several machines in order of time, and to ask them by SQL. A field that someone adds
# in IIS's settings turns statuses, addresses and bytes of the rest of the day into each other.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
cd "$dir"
want='0.11.1-3'
has=$(apt-cache policy lnav | awk '/Candidate:/ { print $2 }')
[ "$has" = "$want" ] || { echo "this finding is about lnav $want, which apt-get would install; it has '$has' (apt-get update?)"; exit 1; }
mkdir debs home
(cd debs && apt-get -qq download "lnav=$want" libarchive13 libcurl4 2>/dev/null)
for deb in debs/*.deb; do dpkg -x "$deb" root; done
cat > iis.log <<'L'
#Software: Microsoft Internet Information Services 10.0
#Version: 1.0
#Date: 2024-01-01 12:00:00
#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status sc-bytes time-taken
2024-01-01 12:00:00 192.0.2.1 GET /a - 200 100 250
#Software: Microsoft Internet Information Services 10.0
#Version: 1.0
#Date: 2024-01-01 12:00:01
#Fields: date time cs-method cs-uri-stem cs-uri-query sc-status c-ip sc-bytes time-taken
2024-01-01 12:00:01 GET /b x=1 404 192.0.2.2 200 1500
L
cat > access_log <<'L'
192.0.2.1 - - [01/Jan/2024:11:00:00 +0000] "GET /second HTTP/1.1" 200 5
192.0.2.1 - - [01/Jan/2024:12:00:00 +0530] "GET /first HTTP/1.1" 200 5
192.0.2.1 - - [01/Jan/2024:12:00:00 +0000] "GET /third HTTP/1.1" 200 5
L
ask() {
  HOME=$dir/home LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu TZ=UTC timeout 60 root/usr/bin/lnav -n -c ";$1" -c ':write-json-to -' "$2" > answer
  python3 -c 'import json, sys; [print(json.dumps(row)) for row in json.load(sys.stdin)]' < answer
}
{
  echo "lnav $want"
  ask 'SELECT log_time, c_ip, cs_method, cs_uri_stem, sc_status, sc_bytes FROM w3c_log' iis.log
  ask 'SELECT log_time, cs_uri_stem FROM access_log ORDER BY log_time, log_line' access_log
} 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
lnav 0.11.1-3
{"log_time": "2024-01-01 12:00:00.000", "c_ip": "192.0.2.1", "cs_method": "GET", "cs_uri_stem": "/a", "sc_status": 200, "sc_bytes": 100}
{"log_time": "2024-01-01 12:00:01.000", "c_ip": "GET", "cs_method": "/b", "cs_uri_stem": "x=1", "sc_status": 192, "sc_bytes": 200}
{"log_time": "2024-01-01 11:00:00.000", "cs_uri_stem": "/second"}
{"log_time": "2024-01-01 12:00:00.000", "cs_uri_stem": "/first"}
{"log_time": "2024-01-01 12:00:00.000", "cs_uri_stem": "/third"}
END
