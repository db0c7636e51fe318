#!/usr/bin/env bash
# Decimals of Arrow and Parquet in JavaScript: apache-arrow 21.2.0 loses the point, or the whole value, and
# hyparquet 1.33.0 loses digits.
#
# Expected: a decimal is its unscaled integer by ten to the power of -scale (Arrow's Schema.fbs, Parquet's logical types), so
# the stored 1.10, -0.07 and 12345678901234567.89 are read as these.
# Observed: in apache-arrow the text and the JSON of Decimal128 are the unscaled integer: "110" for 1.10. Those of Decimal256
# are "0" for 1.50 and "-0" for -1.50. hyparquet gives Numbers: 12345678901234567.89 becomes 12345678901234568.
# No error is raised.
#
# Why it matters: prices, counters and ids in a query's Arrow answer or in an archived file are a hundred times too large in one library,
# zero in a column of another width, and rounded in the other.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts apache-arrow@21.2.0 hyparquet@1.33.0
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install pyarrow==26.0.1
cat > write.py <<'PY'
from decimal import Decimal
import pyarrow as pa, pyarrow.parquet as pq
rows = pa.table({
    "d128": pa.array([Decimal("1.10"), Decimal("-0.07"), Decimal("12345678901234567.89")], pa.decimal128(38, 2)),
    "d256": pa.array([Decimal("1.50"), Decimal("-1.50"), None], pa.decimal256(50, 2)),
})
with pa.ipc.new_file("rows.arrow", rows.schema) as file:
    file.write_table(rows)
pq.write_table(rows.select(["d128"]), "rows.parquet", compression="none")
PY
cat > read.mjs <<'JS'
import { readFileSync } from 'node:fs'
import { tableFromIPC } from 'apache-arrow'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
const table = tableFromIPC(readFileSync('rows.arrow'))
for (const name of ['d128', 'd256']) {
  const { type } = table.schema.fields.find((field) => field.name === name)
  console.log('apache-arrow', name, 'scale', type.scale, [...table.getChild(name)].map((value) => value && String(value)))
}
console.log('apache-arrow as JSON', JSON.stringify(table.get(0)))
console.log('hyparquet', (await parquetReadObjects({ file: await asyncBufferFromFile('rows.parquet') })).map((row) => row.d128))
JS
v/bin/python write.py
node read.mjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
apache-arrow d128 scale 2 [ '110', '-7', '1234567890123456789' ]
apache-arrow d256 scale 2 [ '0', '-0', null ]
apache-arrow as JSON {"d128":"\"110\"","d256":"\"0\""}
hyparquet [ 1.1, -0.07, 12345678901234568 ]
END
