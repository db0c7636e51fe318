#!/usr/bin/env bash
# parse-prometheus-text-format 1.1.1 (npm) makes one histogram of all label sets of a name, without labels, sum and count.
#
# Expected, by Prometheus's text format and by prom2json, whose output the module's README names as its model: each label set is a
# histogram of its own, with its labels, buckets, sum and count. Counters and gauges are read so.
# Observed: a histogram whose samples have labels beside "le" becomes one object. The buckets of the last label set overwrite those
# of the others; labels, sum and count are gone. Without such labels it is read as documented. No error is raised.
#
# Why it matters: nearly all histograms of services have labels (method, route, status). Latencies that a log pipeline
# takes from /metrics through this module are those of whichever route came last.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts parse-prometheus-text-format@1.1.1
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install prometheus-client==0.26.0
cat > metrics <<'M'
# TYPE up gauge
up{route="/a"} 1
up{route="/b"} 0
# TYPE plain histogram
plain_bucket{le="0.5"} 3
plain_bucket{le="+Inf"} 4
plain_sum 2.5
plain_count 4
# TYPE h histogram
h_bucket{route="/a",le="0.5"} 100
h_bucket{route="/a",le="+Inf"} 200
h_sum{route="/a"} 80
h_count{route="/a"} 200
h_bucket{route="/b",le="0.5"} 1
h_bucket{route="/b",le="+Inf"} 2
h_sum{route="/b"} 9
h_count{route="/b"} 2
M
cat > run.cjs <<'JS'
const parse = require('parse-prometheus-text-format');
for (const family of (parse.default ?? parse)(require('fs').readFileSync('metrics', 'utf8'))) console.log(family.name, JSON.stringify(family.metrics));
JS
cat > run.py <<'PY'
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(open("metrics").read()):
    print("Python client:", family.name, len(family.samples), "samples")
PY
{ node run.cjs; v/bin/python run.py; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
up [{"value":"1","labels":{"route":"/a"}},{"value":"0","labels":{"route":"/b"}}]
plain [{"buckets":{"0.5":"3","+Inf":"4"},"count":"4","sum":"2.5"}]
h [{"buckets":{"0.5":"1","+Inf":"2"}}]
Python client: up 2 samples
Python client: plain 4 samples
Python client: h 8 samples
END
