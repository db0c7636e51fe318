#!/usr/bin/env bash
# Of a Parquet file with NaN and one other number in a column, DataFusion 55.0.0 and deltalake 1.6.6 read NaN as that number, and DuckDB 2.0.1
# and pyarrow 26.0.1 do not find it.
#
# Expected, by parquet.thrift: writers leave NaN out of min and max, and who looks for NaN must not go by min and max. So
# a row whose value is NaN is found by isnan(), and a selected value does not depend on the condition.
# Observed, for the values NaN and 1.0, whose statistics are min = max = 1.0 with no nulls:
# - DataFusion and deltalake's QueryBuilder: WHERE f > 0 gives both rows (NaN is the largest value there), and the NaN is 1.0 in the answer.
#   In DataFusion isnan(f) finds nothing, and max(f) is 1.0. With collect_statistics = false (the default is true) all is right.
# - DuckDB: f > 0 gives NaN, as NaN is the largest value there too; f > 2, which is true of the row in memory, and isnan(f) find nothing.
# - pyarrow: a filter is_nan(f) on the file finds nothing; on the table in memory it finds the row.
# - Polars 2.1.0 is right each time.
#
# Why it matters: NaN is what ratios and averages of metrics are when there is nothing to divide by, and OTLP carries it. A check
# for such values over Parquet finds none, and sums are computed with numbers that nobody sent.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install pyarrow==26.0.1 datafusion==55.0.0 duckdb==2.0.1 polars==2.1.0 deltalake==1.6.6
cat > run.py <<'PY'
import duckdb, polars as pl, pyarrow as pa, pyarrow.compute as pc, pyarrow.dataset as ds, pyarrow.parquet as pq
from datafusion import SessionContext
from deltalake import DeltaTable, QueryBuilder, write_deltalake
rows = pa.table({"id": [1, 2], "f": [float("nan"), 1.0]})
pq.write_table(rows, "f.parquet")
statistics = pq.ParquetFile("f.parquet").metadata.row_group(0).column(1).statistics
print("statistics", statistics.min, statistics.max, statistics.null_count)
write_deltalake("table", rows)
def datafusion(collect):
    context = SessionContext()
    context.sql(f"SET datafusion.execution.collect_statistics = {collect}")
    context.register_parquet("t", "f.parquet")
    return lambda sql: [tuple(row.values()) for row in context.sql(sql).to_pylist()]
def delta(sql):
    return [tuple(row.values()) for row in pa.table(QueryBuilder().register("t", DeltaTable("table")).execute(sql).read_all()).to_pylist()]
for name, ask in {
    "DataFusion": datafusion("true"),
    "DataFusion without statistics": datafusion("false"),
    "deltalake": delta,
    "DuckDB": lambda sql: duckdb.sql(sql.replace(" t", " 'f.parquet'")).fetchall(),
    "Polars": lambda sql: pl.SQLContext(t=pl.scan_parquet("f.parquet")).execute(sql).collect().rows() if "isnan" not in sql
        else pl.scan_parquet("f.parquet").filter(pl.col("f").is_nan()).collect().rows(),
}.items():
    for sql in ("SELECT id, f FROM t WHERE f > 0", "SELECT id, f FROM t WHERE isnan(f)"):
        print(name, sql, sorted(ask(sql)))
print("DataFusion", "max(f)", datafusion("true")("SELECT max(f) FROM t"), "without statistics", datafusion("false")("SELECT max(f) FROM t"))
print("DuckDB f > 2", duckdb.sql("SELECT id FROM 'f.parquet' WHERE f > 2").fetchall(), "in memory", duckdb.sql("SELECT id FROM rows WHERE f > 2").fetchall())
nan = pc.is_nan(ds.field("f"))
print("pyarrow is_nan: file", ds.dataset("f.parquet").to_table(filter=nan).num_rows, "memory", pq.read_table("f.parquet").filter(nan).num_rows)
PY
v/bin/python run.py 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
statistics 1.0 1.0 0
DataFusion SELECT id, f FROM t WHERE f > 0 [(1, 1.0), (2, 1.0)]
DataFusion SELECT id, f FROM t WHERE isnan(f) []
DataFusion without statistics SELECT id, f FROM t WHERE f > 0 [(1, nan), (2, 1.0)]
DataFusion without statistics SELECT id, f FROM t WHERE isnan(f) [(1, nan)]
deltalake SELECT id, f FROM t WHERE f > 0 [(1, 1.0), (2, 1.0)]
deltalake SELECT id, f FROM t WHERE isnan(f) [(1, nan)]
DuckDB SELECT id, f FROM t WHERE f > 0 [(1, nan), (2, 1.0)]
DuckDB SELECT id, f FROM t WHERE isnan(f) []
Polars SELECT id, f FROM t WHERE f > 0 [(1, nan), (2, 1.0)]
Polars SELECT id, f FROM t WHERE isnan(f) [(1, nan)]
DataFusion max(f) [(1.0,)] without statistics [(nan,)]
DuckDB f > 2 [] in memory [(1,)]
pyarrow is_nan: file 0 memory 1
END
