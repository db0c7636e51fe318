#!/usr/bin/env bash
# daft 0.7.26, read_json: in a field that has texts and records, the records are null; and fractions of seconds are cut off where one
# time of the column has none.
#
# Expected: what cannot be held by the column's type is kept as text or refused. DuckDB 2.0.1 and Polars 2.1.0 give the record's JSON as text.
# Observed:
# - {"err": "text"} then {"err": {"code": 5}}: the column is text; numbers and booleans become text, records and lists become
#   null. So it is within a record.
# - "2024-01-01T00:00:00" then "2024-01-01T00:00:00.75": the column is a timestamp of seconds, and the fraction is gone, in
#   either order, although both were seen when the type was chosen. No error is raised.
#
# Why it matters: an "err" that is sometimes a text and sometimes an object is the commonest mixed field of logs, and many writers
# leave out a fraction that is zero. A file that is converted with daft loses just these errors, and the order within a second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install daft==0.7.26 duckdb==2.0.1 polars==2.1.0
cat > run.py <<'PY'
import daft, duckdb, polars as pl
for name, lines in {
    "mixed": ['{"err": "text"}', '{"err": 7}', '{"err": true}', '{"err": {"code": 5}}', '{"err": [1, 2]}'],
    "nested": ['{"m": {"err": "text"}}', '{"m": {"err": {"code": 5}}}'],
    "times": ['{"t": "2024-01-01T00:00:00"}', '{"t": "2024-01-01T00:00:00.75"}'],
    "times turned": ['{"t": "2024-01-01T00:00:00.75"}', '{"t": "2024-01-01T00:00:00"}'],
}.items():
    open("x.jsonl", "w").write("\n".join(lines) + "\n")
    print(name, "daft  ", [list(row.values())[0] if "m" not in row else row["m"] for row in daft.read_json("x.jsonl").to_pylist()])
    if name == "mixed":
        print(name, "DuckDB", [row[0] for row in duckdb.sql("SELECT err::VARCHAR FROM read_json('x.jsonl')").fetchall()])
        print(name, "Polars", pl.read_ndjson("x.jsonl")["err"].to_list())
PY
sed -i 's/^import daft/import os; os.environ["DAFT_PROGRESS_BAR"] = "0"\nimport daft/' run.py
v/bin/python run.py 2> errors | tee out
cat errors >&2
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
mixed daft   ['text', '7', 'true', None, None]
mixed DuckDB ['"text"', '7', 'true', '{"code":5}', '[1,2]']
mixed Polars ['text', '7', 'true', '{"code": 5}', '[1, 2]']
nested daft   [{'err': 'text'}, {'err': None}]
times daft   [datetime.datetime(2024, 1, 1, 0, 0), datetime.datetime(2024, 1, 1, 0, 0)]
times turned daft   [datetime.datetime(2024, 1, 1, 0, 0), datetime.datetime(2024, 1, 1, 0, 0)]
END
