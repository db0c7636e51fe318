#!/usr/bin/env bash
# apache-log-parser 1.7.0 (PyPI) reads +0530 as five hours and three minutes, and requests of HTTP/2.0 with the protocol in their URL.
#
# Expected, by Apache's documentation of %t and %r: the zone is (+|-)HHMM, and the first line of a request is a method, a URL and
# a protocol. lars 1.0 reads both so.
# Observed: of the minutes of a zone only the first digit is taken: 12:00 +0530 is 06:57 UTC, not 06:30, and -0330 is off
# likewise. For "GET /a?x=1 HTTP/2.0" the URL is "/a?x=1 HTTP/2.0", and x is "1 HTTP/2.0". A method that is not in a list
# of nine, such as PURGE or MKCOL, makes method and URL empty. No error is raised.
#
# Why it matters: browsers speak HTTP/2, so the same page is counted under two URLs and parameters have other values. Events of servers in
# India, Iran, Newfoundland or Nepal stand half an hour away from those of their neighbours.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install apache-log-parser==1.7.0 lars==1.0
cat > run.py <<'PY'
import datetime, importlib.metadata, io, warnings
warnings.simplefilter("ignore")
import apache_log_parser
from lars import apache
print("apache-log-parser", importlib.metadata.version("apache-log-parser"))
form = '%h %l %u %t "%r" %>s %b'
parse = apache_log_parser.make_parser(form)
for zone, request in [
    ("+0000", "GET /a?x=1 HTTP/1.1"),
    ("+0530", "GET /a?x=1 HTTP/1.1"),
    ("-0330", "GET /a?x=1 HTTP/1.1"),
    ("+0000", "GET /a?x=1 HTTP/2.0"),
    ("+0000", "PURGE /a?x=1 HTTP/1.1"),
]:
    line = f'192.0.2.1 - - [01/Jan/2024:12:00:00 {zone}] "{request}" 200 5'
    row = parse(line)
    print(zone, request)
    print("  apache-log-parser", row["time_received_utc_isoformat"], [row["request_method"], row["request_url"], row.get("request_url_query_dict")])
    with apache.ApacheSource(io.StringIO(line + "\n"), form) as source:
        row, = source
    print("  lars             ", row.time.isoformat(), [row.request.method, str(row.request.url), row.request.protocol])
PY
v/bin/python run.py 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
apache-log-parser 1.7.0
+0000 GET /a?x=1 HTTP/1.1
  apache-log-parser 2024-01-01T12:00:00+00:00 ['GET', '/a?x=1', {'x': ['1']}]
  lars              2024-01-01T12:00:00 ['GET', '/a?x=1', 'HTTP/1.1']
+0530 GET /a?x=1 HTTP/1.1
  apache-log-parser 2024-01-01T06:57:00+00:00 ['GET', '/a?x=1', {'x': ['1']}]
  lars              2024-01-01T06:30:00 ['GET', '/a?x=1', 'HTTP/1.1']
-0330 GET /a?x=1 HTTP/1.1
  apache-log-parser 2024-01-01T15:03:00+00:00 ['GET', '/a?x=1', {'x': ['1']}]
  lars              2024-01-01T15:30:00 ['GET', '/a?x=1', 'HTTP/1.1']
+0000 GET /a?x=1 HTTP/2.0
  apache-log-parser 2024-01-01T12:00:00+00:00 ['GET', '/a?x=1 HTTP/2.0', {'x': ['1 HTTP/2.0']}]
  lars              2024-01-01T12:00:00 ['GET', '/a?x=1', 'HTTP/2.0']
+0000 PURGE /a?x=1 HTTP/1.1
  apache-log-parser 2024-01-01T12:00:00+00:00 ['', '', None]
  lars              2024-01-01T12:00:00 ['PURGE', '/a?x=1', 'HTTP/1.1']
END
