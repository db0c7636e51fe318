#!/usr/bin/env bash
# Three readers of CEF give three answers for valid events: liblognorm 2.0.6 (Debian 12), which rsyslog's mmnormalize uses, pycef 1.11 (PyPI)
# and nsyslog-parser 0.10.1 (npm).
#
# Expected, by ArcSight's description of the format: the extension begins right behind the seventh bar; in the header \| stands for | and
# \\ for \; in a value \= stands for =, \\ for \ and \n for a line break; a value may be empty.
# Observed:
# - liblognorm takes the first letter of the extension for a space: "src=..." becomes the field "rc". Behind a space, which no
#   example of the format has, it is right. All escapes are read. An event that ends with an empty value is refused.
# - pycef ends the header at an escaped bar: Name is empty, there is no severity, and the key is "more|5|msg". Escapes stay as they are. An
#   empty value goes missing with its key.
# - nsyslog-parser ends a value at an escaped equals sign: the rest of a URL's parameters is gone. None raises an error.
#
# Why it matters: firewalls and intrusion detection send CEF, most often with src first and URLs in "request". A rule that looks for src finds
# nothing behind rsyslog, and one that looks for a severity misses just those events that were escaped.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
cd "$dir"
want='2.0.6-4'
has=$(apt-cache policy liblognorm5 | awk '/Candidate:/ { print $2 }')
[ "$has" = "$want" ] || { echo "this finding is about liblognorm $want, which apt-get would install; it has '$has' (apt-get update?)"; exit 1; }
mkdir debs
(cd debs && apt-get -qq download "liblognorm5=$want" "liblognorm-utils=$want" libestr0 libfastjson4 2>/dev/null)
for deb in debs/*.deb; do dpkg -x "$deb" root; done
npm install --silent --no-audit --no-fund --ignore-scripts nsyslog-parser@0.10.1
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install pycef==1.11
cat > events <<'E'
CEF:0|V|P|1|100|name|5|src=192.0.2.1 msg=two words
CEF:0|V|P|1|100|name|5| src=192.0.2.1 msg=two words
CEF:0|V|P|1|100|some \| more|5|msg=text act=deny
CEF:0|V|P|1|100|name|5|request=/a?b\=1&c\=2 act=deny
CEF:0|V|P|1|100|name|5|act=deny msg=one\ntwo suser=
E
printf 'version=2\nrule=:%%f:cef%%\n' > rules
cat > run.py <<'PY'
import json, pycef
header = ("CEFVersion", "DeviceVendor", "DeviceProduct", "DeviceVersion", "DeviceEventClassID", "DeviceName", "DeviceSeverity")
for line in open("events"):
    event = pycef.parse(line.rstrip("\n"))
    extension = {name: value for name, value in event.items() if name not in header + ("Name", "Severity")}
    print("pycef         ", json.dumps([event.get("Name"), event.get("Severity"), extension]))
PY
cat > run.cjs <<'JS'
const parse = require('nsyslog-parser');
for (const line of require('fs').readFileSync('events', 'utf8').trim().split('\n')) {
  const { cef, fields } = parse(`<34>1 2024-01-01T00:00:00Z h app 1 - - ${line}`);
  console.log('nsyslog-parser', JSON.stringify([cef.name, cef.severity, fields]));
}
JS
cat > show.py <<'PY'
import json, sys
for line in sys.stdin:
    event = json.loads(line).get("f")
    print("liblognorm    ", json.dumps([event["Name"], event["Severity"], event["Extensions"]]) if event else "no rule fits")
PY
{
  cat events
  LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu root/usr/bin/lognormalizer -r rules -e json < events | python3 show.py
  v/bin/python run.py
  node run.cjs
} 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
CEF:0|V|P|1|100|name|5|src=192.0.2.1 msg=two words
CEF:0|V|P|1|100|name|5| src=192.0.2.1 msg=two words
CEF:0|V|P|1|100|some \| more|5|msg=text act=deny
CEF:0|V|P|1|100|name|5|request=/a?b\=1&c\=2 act=deny
CEF:0|V|P|1|100|name|5|act=deny msg=one\ntwo suser=
liblognorm     ["name", "5", {"rc": "192.0.2.1", "msg": "two words"}]
liblognorm     ["name", "5", {"src": "192.0.2.1", "msg": "two words"}]
liblognorm     ["some | more", "5", {"sg": "text", "act": "deny"}]
liblognorm     ["name", "5", {"equest": "/a?b=1&c=2", "act": "deny"}]
liblognorm     no rule fits
pycef          ["name", "5", {"src": "192.0.2.1", "msg": "two words"}]
pycef          ["name", "5", {"src": "192.0.2.1", "msg": "two words"}]
pycef          ["", null, {"more|5|msg": "text", "act": "deny"}]
pycef          ["name", "5", {"request": "/a?b\\=1&c\\=2", "act": "deny"}]
pycef          ["name", "5", {"act": "deny", "msg": "one\\ntwo"}]
nsyslog-parser ["name","5",{"src":"192.0.2.1","msg":"two words"}]
nsyslog-parser ["name","5",{"":"","src":"192.0.2.1","msg":"two words"}]
nsyslog-parser ["some \\| more","5",{"msg":"text","act":"deny"}]
nsyslog-parser ["name","5",{"request":"/a?b\\","act":"deny"}]
nsyslog-parser ["name","5",{"act":"deny","msg":"one\\ntwo","suser":""}]
END
