#!/usr/bin/env bash
# tdigest 0.1.3 (npm), and so the summaries of prom-client 15.1.3, tdigest 0.5.2.2 and pytdigest 0.1.4 (PyPI) answer with
# quantiles far from any value that was measured, when most values are equal.
#
# Expected: a t-digest is an approximation whose rank error is small, most of all at both ends. Of 990 values 1 and 10 values
# 1000 the quantiles up to 0.98 are 1, also if each rank is off by half a percent.
# Observed: 0.5 is 10.99, 0.9 is 810.19 and 0.95 is 910.09, with 100 values as with 10000, in any order. All equal values are one centroid, and
# from its middle to the middle of the next the answer is a straight line, as if half of the 990 were above 1. With
# values that differ in the sixth digit the answers are right. fastdigest 0.12.0 (PyPI) is right in both cases.
#
# Why it matters: latencies in whole milliseconds, sizes and retries are such values. A service that answers 99 % of its requests in 1 ms
# is shown with a median of 11 ms and a 90th percentile of 810 ms, and alerts go by that.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts tdigest@0.1.3 prom-client@15.1.3
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install tdigest==0.5.2.2 pytdigest==0.1.4 fastdigest==0.12.0
cat > run.cjs <<'JS'
const { TDigest } = require('tdigest'), { Registry, Summary } = require('prom-client');
const quantiles = [0.5, 0.9, 0.95, 0.98], show = (values) => values.map((value) => value.toFixed(2)).join(' ');
const equal = Array.from({ length: 1000 }, (_, i) => (i % 100 === 50 ? 1000 : 1)), different = equal.map((value, i) => value + i * 1e-6);
(async () => {
  for (const [name, values] of Object.entries({ equal, different })) {
    const digest = new TDigest(), summary = new Summary({ name: 'ms', help: 'ms', percentiles: quantiles, registers: [new Registry()] });
    for (const value of values) {
      digest.push(value);
      summary.observe(value);
    }
    digest.compress();
    console.log(name, 'tdigest of npm ', show(digest.percentile(quantiles)));
    console.log(name, 'prom-client    ', show((await summary.get()).values.slice(0, 4).map((sample) => sample.value)));
  }
})();
JS
cat > run.py <<'PY'
import fastdigest, numpy, pytdigest, tdigest
quantiles = (0.5, 0.9, 0.95, 0.98)
equal = [1000.0 if i % 100 == 50 else 1.0 for i in range(1000)]
for name, values in {"equal": equal, "different": [value + i * 1e-6 for i, value in enumerate(equal)]}.items():
    digest = tdigest.TDigest()
    for value in values:
        digest.update(value)
    other = pytdigest.TDigest.compute(numpy.array(values))
    right = fastdigest.TDigest.from_values(values)
    for reader, answers in {
        "tdigest of PyPI": [digest.percentile(q * 100) for q in quantiles],
        "pytdigest      ": [float(other.inverse_cdf(q)) for q in quantiles],
        "fastdigest     ": [right.quantile(q) for q in quantiles],
    }.items():
        print(name, reader, *(f"{answer:.2f}" for answer in answers))
PY
{ node run.cjs; v/bin/python run.py; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
equal tdigest of npm  10.99 810.19 910.09 970.03
equal prom-client     10.99 810.19 910.09 970.03
different tdigest of npm  1.00 1.00 1.00 1.00
different prom-client     1.00 1.00 1.00 1.00
equal tdigest of PyPI 10.99 810.19 910.09 970.03
equal pytdigest       10.99 810.19 910.09 970.03
equal fastdigest      1.00 1.00 1.00 1.00
different tdigest of PyPI 1.00 1.00 1.00 1.00
different pytdigest       1.00 1.00 1.00 1.00
different fastdigest      1.00 1.00 1.00 1.00
END
