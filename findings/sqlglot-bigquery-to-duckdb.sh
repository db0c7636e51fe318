#!/usr/bin/env bash
# sqlglot 30.30.0 translates BigQuery's SQL to DuckDB's, and four everyday expressions of log queries then answer
# something else, without an error or a warning, also with unsupported_level=RAISE.
#
# Expected, by the reference of GoogleSQL:
# - TIMESTAMP_DIFF counts whole units: from 00:59:59 to 01:00:00 there are 0 hours, from 00:00:01 to 01:00:00 too.
# - FORMAT_TIMESTAMP takes a time zone as its third argument.
# - EXTRACT(DAYOFWEEK) is 1 to 7 and begins with Sunday; EXTRACT(MILLISECOND) is the part within the second.
# - UNNEST(...) WITH OFFSET counts from 0.
# Observed: TIMESTAMP_DIFF counts the boundaries that are crossed; the zone is dropped; Sunday is 0, and the milliseconds
# have the seconds in them; the offset counts from 1, so a lookup by it is one element off.
#
# Why it matters: who tests saved BigQuery queries over logs on a local DuckDB gets other durations, local hours and
# weekdays than production has, and no sign of it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install sqlglot==30.30.0 duckdb==2.0.1
cat > run.py <<'PY'
import duckdb, sqlglot
print("sqlglot", sqlglot.__version__, "duckdb", duckdb.__version__)
db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
for query, documented in [
    ("SELECT TIMESTAMP_DIFF(TIMESTAMP '2001-02-01 01:00:00+00', TIMESTAMP '2001-02-01 00:59:59+00', HOUR)", 0),
    ("SELECT TIMESTAMP_DIFF(TIMESTAMP '2001-02-01 01:00:00+00', TIMESTAMP '2001-02-01 00:00:01+00', HOUR)", 0),
    ("SELECT FORMAT_TIMESTAMP('%H:%M', TIMESTAMP '2024-01-07 00:00:05+00', 'Asia/Tokyo')", "09:00"),
    ("SELECT EXTRACT(DAYOFWEEK FROM DATE '2024-01-07')", 1),
    ("SELECT EXTRACT(MILLISECOND FROM DATETIME '2024-01-07 00:00:05.123')", 123),
    ("SELECT o FROM UNNEST(['first', 'second']) AS x WITH OFFSET AS o WHERE x = 'first'", 0),
]:
    duck = sqlglot.transpile(query, read="bigquery", write="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)[0]
    print(query, "| documented", documented, "| answer", db.execute(duck).fetchone()[0])
PY
v/bin/python run.py 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
sqlglot 30.30.0 duckdb 2.0.1
SELECT TIMESTAMP_DIFF(TIMESTAMP '2001-02-01 01:00:00+00', TIMESTAMP '2001-02-01 00:59:59+00', HOUR) | documented 0 | answer 1
SELECT TIMESTAMP_DIFF(TIMESTAMP '2001-02-01 01:00:00+00', TIMESTAMP '2001-02-01 00:00:01+00', HOUR) | documented 0 | answer 1
SELECT FORMAT_TIMESTAMP('%H:%M', TIMESTAMP '2024-01-07 00:00:05+00', 'Asia/Tokyo') | documented 09:00 | answer 00:00
SELECT EXTRACT(DAYOFWEEK FROM DATE '2024-01-07') | documented 1 | answer 0
SELECT EXTRACT(MILLISECOND FROM DATETIME '2024-01-07 00:00:05.123') | documented 123 | answer 5123
SELECT o FROM UNNEST(['first', 'second']) AS x WITH OFFSET AS o WHERE x = 'first' | documented 0 | answer 1
END
