#!/usr/bin/env bash
# DataFusion 55.0.0 does not find the zeros of a Parquet file that has a bloom filter, if they were written as -0.0.
#
# Expected: -0.0 = 0.0 is true by IEEE 754 and in DataFusion itself. A bloom filter may only rule out what cannot be there; as the two
# zeros have different bytes, a reader that looks for one must look for the other as well.
# Observed: 3000 rows of 6000 are -0.0. With bloom filters of pyarrow 26.0.1 and DuckDB 2.0.1, which writes them by default,
# f = 0, f IN (0) and f BETWEEN 0 AND 0 give no row, f = -0.0 and f > -1 AND f < 1 give 3000. Without the filter, or with
# bloom_filter_on_read = false (the default is true), all give 3000; so do DuckDB, Polars 2.1.0 and pyarrow.
#
# Why it matters: -0.0 is what rounding makes of small negative differences and what 0 * -1 is: clock offsets, balances, changes of a rate.
# "WHERE delta = 0" says that nothing stood still.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install datafusion==55.0.0 pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0
cat > run.py <<'PY'
import duckdb, polars as pl, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
from datafusion import SessionContext
rows = pa.table({"f": [-0.0 if i % 2 else 1.5 for i in range(6000)]})
duckdb.sql("COPY (FROM rows) TO 'duckdb.parquet' (FORMAT parquet)")
pq.write_table(rows, "pyarrow.parquet", bloom_filter_options={"f": {"ndv": 10}})
pq.write_table(rows, "none.parquet")
conditions = ("f = 0", "f IN (0)", "f BETWEEN 0 AND 0", "f = -0.0", "f > -1 AND f < 1")
print("conditions", *conditions, sep=" | ")
for name in ("none", "pyarrow", "duckdb"):
    file = f"{name}.parquet"
    bloom, = duckdb.sql(f"SELECT bloom_filter_offset IS NOT NULL FROM parquet_metadata('{file}')").fetchall()[0]
    print(file, "has a bloom filter" if bloom else "has no bloom filter")
    for read in ("true", "false"):
        context = SessionContext()
        context.sql(f"SET datafusion.execution.parquet.bloom_filter_on_read = {read}")
        context.register_parquet("t", file)
        print("  DataFusion, bloom_filter_on_read", read, [context.sql(f"SELECT count(*) AS n FROM t WHERE {c}").to_pylist()[0]["n"] for c in conditions])
    print("  DuckDB", [duckdb.sql(f"SELECT count(*) FROM '{file}' WHERE {c}").fetchall()[0][0] for c in conditions])
    print("  Polars", pl.scan_parquet(file).filter(pl.col("f") == 0).collect().height, "pyarrow", pq.read_table(file, filters=pc.field("f") == 0.0).num_rows)
PY
v/bin/python run.py 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
conditions | f = 0 | f IN (0) | f BETWEEN 0 AND 0 | f = -0.0 | f > -1 AND f < 1
none.parquet has no bloom filter
  DataFusion, bloom_filter_on_read true [3000, 3000, 3000, 3000, 3000]
  DataFusion, bloom_filter_on_read false [3000, 3000, 3000, 3000, 3000]
  DuckDB [3000, 3000, 3000, 3000, 3000]
  Polars 3000 pyarrow 3000
pyarrow.parquet has a bloom filter
  DataFusion, bloom_filter_on_read true [0, 0, 0, 3000, 3000]
  DataFusion, bloom_filter_on_read false [3000, 3000, 3000, 3000, 3000]
  DuckDB [3000, 3000, 3000, 3000, 3000]
  Polars 3000 pyarrow 3000
duckdb.parquet has a bloom filter
  DataFusion, bloom_filter_on_read true [0, 0, 0, 3000, 3000]
  DataFusion, bloom_filter_on_read false [3000, 3000, 3000, 3000, 3000]
  DuckDB [3000, 3000, 3000, 3000, 3000]
  Polars 3000 pyarrow 3000
END
