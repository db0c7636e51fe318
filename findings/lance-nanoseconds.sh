#!/usr/bin/env bash
# pylance 14.0.2: a filter with a timestamp of nanoseconds finds another row than the one of that time.
#
# Expected: a column of nanoseconds keeps them, as Lance does, and a literal with nine digits of a second is compared with all nine, or refused.
# DataFusion 55.0.0, on which Lance's filters are built, compares nine.
# Observed: timestamp '...123456789' is cut to microseconds. "=" finds the row of .123456000, if there is one, and not that of .123456789; ">="
# finds one row too many, and "<" one too few. timestamp(9) '...' is right. No error is raised.
#
# Why it matters: OTLP's, Docker's and Loki's times have nanoseconds, and pages of logs are fetched by "older than the last one seen". A
# page then begins too late, and events within one microsecond are skipped, or come again with ">=".
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install pylance==14.0.2 pyarrow==26.0.1 datafusion==55.0.0
cat > run.py <<'PY'
import lance, pyarrow as pa
from datafusion import SessionContext
print("pylance", lance.__version__)
second = 1704067200 * 10**9
rows = pa.table({"ns": [123456000, 123456789, 123456790], "at": pa.array([second + ns for ns in (123456000, 123456789, 123456790)], pa.timestamp("ns"))})
dataset = lance.write_dataset(rows, "events")
print("kept", [at - second for at in dataset.to_table()["at"].cast(pa.int64()).to_pylist()])
context = SessionContext()
context.register_record_batches("events", [rows.to_batches()])
for condition in (
    "at = timestamp '2024-01-01 00:00:00.123456789'",
    "at >= timestamp '2024-01-01 00:00:00.123456789'",
    "at < timestamp '2024-01-01 00:00:00.123456790'",
    "at = timestamp(9) '2024-01-01 00:00:00.123456789'",
):
    print(condition)
    print("  Lance     ", dataset.to_table(filter=condition)["ns"].to_pylist())
    if "(9)" not in condition:
        print("  DataFusion", [row["ns"] for row in context.sql(f"SELECT ns FROM events WHERE {condition} ORDER BY ns").to_pylist()])
PY
v/bin/python run.py 2> errors | tee out
cat errors >&2
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
pylance 14.0.2
kept [123456000, 123456789, 123456790]
at = timestamp '2024-01-01 00:00:00.123456789'
  Lance      [123456000]
  DataFusion [123456789]
at >= timestamp '2024-01-01 00:00:00.123456789'
  Lance      [123456000, 123456789, 123456790]
  DataFusion [123456789, 123456790]
at < timestamp '2024-01-01 00:00:00.123456790'
  Lance      []
  DataFusion [123456000, 123456789]
at = timestamp(9) '2024-01-01 00:00:00.123456789'
  Lance      [123456789]
END
