#!/usr/bin/env bash
# A line of logfmter 0.0.12 (PyPI) with a line break in a value is read wrongly by logfmt 1.4.0 (npm) and by logfmt 0.4 (PyPI).
#
# Expected: logfmter writes values in quotes, with \" and \n, as Go's logfmt encoders do, whose quoted values are JSON strings
# by the grammar of go-logfmt. A reader gives the value back.
# Observed: logfmt of npm reads "\n" as the letter n, and its own stringify writes a line break as it is, which makes two lines
# of one record. logfmt of PyPI gives the value True, and drops all pairs behind it. It does the same with a
# backslash: C:\temp. No error is raised.
#
# Why it matters: stack traces are such values. What is lost with the PyPI reader are the fields behind the trace, such as the request's id.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts logfmt@1.4.0
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install logfmter==0.0.12 logfmt==0.4
cat > run.py <<'PY'
import logging, sys
from logfmt import parse_line
from logfmter import Logfmter
formatter = Logfmter(keys=["level"], mapping={"level": "levelname"})
for fields in ({"msg": "one\ntwo", "id": 7}, {"msg": "in C:\\temp dir", "id": 7}, {"msg": 'say "hi"', "id": 7}):
    line = formatter.format(logging.LogRecord("app", logging.ERROR, "app.py", 1, fields, (), None))
    print("line    ", line)
    print("PyPI    ", parse_line(line))
    print(line, file=sys.stderr)
PY
cat > run.cjs <<'JS'
const logfmt = require('logfmt');
for (const line of require('fs').readFileSync('lines', 'utf8').trim().split('\n')) console.log('npm     ', JSON.stringify(logfmt.parse(line)));
console.log('npm writes', JSON.stringify(logfmt.stringify({ level: 'ERROR', msg: 'one\ntwo', id: 7 })));
JS
{ v/bin/python run.py 2> lines; node run.cjs; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
line     level=ERROR msg="one\ntwo" id=7
PyPI     {'level': 'ERROR', 'msg': True}
line     level=ERROR msg="in C:\\temp dir" id=7
PyPI     {'level': 'ERROR', 'msg': True}
line     level=ERROR msg="say \"hi\"" id=7
PyPI     {'level': 'ERROR', 'msg': 'say "hi"', 'id': '7'}
npm      {"level":"ERROR","msg":"onentwo","id":"7"}
npm      {"level":"ERROR","msg":"in C:\\temp dir","id":"7"}
npm      {"level":"ERROR","msg":"say \"hi\"","id":"7"}
npm writes "level=ERROR msg=one\ntwo id=7"
END
