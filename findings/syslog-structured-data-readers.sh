#!/usr/bin/env bash
# Three readers of RFC 5424 give three answers for the structured data of valid messages, and two of them lose what was sent:
# glossy 0.1.7 and nsyslog-parser 0.10.1 of npm, syslog-rfc5424-parser 0.3.2 of PyPI.
#
# Expected, by RFC 5424 section 6.3: an element may have no parameters ("[" SD-ID *(SP SD-PARAM) "]"); a value is
# what stands between its quotes; within it \" stands for ", \] for ] and \\ for \.
# Observed:
# - [a@1] without parameters: glossy calls the element "a@1]" and drops the text up to the next bracket; nsyslog-parser
#   takes the element for a part of the text.
# - cmd="run as=root": nsyslog-parser reads two parameters, cmd "run" and as "root".
# - an escaped quote: nsyslog-parser takes all structured data for text; syslog-rfc5424-parser keeps the backslashes in
#   the value. None raises an error.
#
# Why it matters: rsyslog, syslog-ng and libraries of all languages write such elements. A relay with one of these readers stores
# a cut message or wrong fields, and a search for what is missing finds nothing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts glossy@0.1.7 nsyslog-parser@0.10.1
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install syslog-rfc5424-parser==0.3.2
cat > messages <<'M'
<34>1 2003-10-11T22:14:15.003Z h app 1 - [a@1] login [root] "failed"
<34>1 2003-10-11T22:14:15.003Z h app 1 - [a@1 cmd="run as=root" y="z"] text
<34>1 2003-10-11T22:14:15.003Z h app 1 - [a@1 x="say \"hi\""] text
M
cat > run.cjs <<'JS'
const glossy = require('glossy').Parse, nsyslog = require('nsyslog-parser');
for (const line of require('fs').readFileSync('messages', 'utf8').trim().split('\n')) {
  const g = glossy.parse(line), n = nsyslog(line);
  console.log(line);
  console.log('  glossy        ', JSON.stringify([g.structuredData, g.message]));
  console.log('  nsyslog-parser', JSON.stringify([n.structuredData, n.message]));
}
JS
cat > run.py <<'PY'
import json
from syslog_rfc5424_parser import SyslogMessage
for line in open("messages"):
    message = SyslogMessage.parse(line.rstrip("\n")).as_dict()
    print("  syslog-rfc5424-parser", json.dumps([message["sd"], message["msg"]]))
PY
{ node run.cjs; v/bin/python run.py; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
<34>1 2003-10-11T22:14:15.003Z h app 1 - [a@1] login [root] "failed"
  glossy         [{"a@1]":{}},"\"failed\""]
  nsyslog-parser [[],"[a@1] login [root] \"failed\""]
<34>1 2003-10-11T22:14:15.003Z h app 1 - [a@1 cmd="run as=root" y="z"] text
  glossy         [{"a@1":{"cmd":"run as=root","y":"z"}},"text"]
  nsyslog-parser [[{"$id":"a@1","cmd":"run","as":"root","y":"z"}],"text"]
<34>1 2003-10-11T22:14:15.003Z h app 1 - [a@1 x="say \"hi\""] text
  glossy         [{"a@1":{"x":"say \"hi\""}},"text"]
  nsyslog-parser [[],"[a@1 x=\"say \\\"hi\\\"\"] text"]
  syslog-rfc5424-parser [{"a@1": {}}, "login [root] \"failed\""]
  syslog-rfc5424-parser [{"a@1": {"cmd": "run as=root", "y": "z"}}, "text"]
  syslog-rfc5424-parser [{"a@1": {"x": "say \\\"hi\\\""}}, "text"]
END
