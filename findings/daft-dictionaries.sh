#!/usr/bin/env bash
# daft 0.7.26 writes a column that came as an Arrow dictionary to Parquet as pickled Python objects.
#
# Expected: a dictionary of texts is a way to store texts. pyarrow 25.0.1, Polars 2.1.0 and DuckDB 2.0.1 write it to Parquet as a column of strings.
# Observed: daft.from_arrow() makes a column of type Python of it, as it does of the texts in views that Polars hands out. Filters on it are right. In
# the Parquet file the column is binary, and each value is the pickle of a Python string: 18 bytes or so around the text. A column
# of plain strings is written as such. No error is raised.
#
# Why it matters: hosts, levels and services of logs are dictionaries in Arrow, and categories in pandas and Polars. In the files of
# daft no other reader finds level = 'error', and text search finds it only by chance.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install daft==0.7.26 pyarrow==25.0.1 polars==2.1.0 duckdb==2.0.1
cat > run.py <<'PY'
import glob, os
os.environ["DAFT_PROGRESS_BAR"] = "0"
import daft, duckdb, polars as pl, pyarrow as pa, pyarrow.parquet as pq
print("daft", daft.__version__)
texts = pa.array(["error", "info", None])
for name, column in {"strings": texts, "dictionary": texts.dictionary_encode(), "views": texts.cast(pa.string_view())}.items():
    rows = pa.table({"level": column})
    frame = daft.from_arrow(rows)
    frame.write_parquet(name)
    file, = glob.glob(f"{name}/*.parquet")
    column = pq.ParquetFile(file).schema.column(0)
    print(name, "| type in daft", frame.schema()["level"].dtype, "| rows with error", frame.where(daft.col("level") == "error").count_rows())
    print(name, "| daft's file", column.physical_type, column.logical_type, duckdb.sql(f"SELECT level::BLOB FROM '{file}'").fetchall())
    if name != "views":
        pq.write_table(rows, "pyarrow.parquet")
        pl.from_arrow(rows).write_parquet("polars.parquet")
        duckdb.sql("COPY (FROM rows) TO 'duckdb.parquet' (FORMAT parquet)")
        print(name, "| pyarrow, Polars, DuckDB", *(pq.ParquetFile(f"{writer}.parquet").schema.column(0).logical_type for writer in ("pyarrow", "polars", "duckdb")))
PY
v/bin/python run.py 2> errors | tee out
cat errors >&2
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
daft 0.7.26
strings | type in daft String | rows with error 1
strings | daft's file BYTE_ARRAY String [(b'error',), (b'info',), (None,)]
strings | pyarrow, Polars, DuckDB String String String
dictionary | type in daft Python | rows with error 1
dictionary | daft's file BYTE_ARRAY None [(b'\x80\x05\x95\t\x00\x00\x00\x00\x00\x00\x00\x8c\x05error\x94.',), (b'\x80\x05\x95\x08\x00\x00\x00\x00\x00\x00\x00\x8c\x04info\x94.',), (None,)]
dictionary | pyarrow, Polars, DuckDB String String String
views | type in daft Python | rows with error 1
views | daft's file BYTE_ARRAY None [(b'\x80\x05\x95\t\x00\x00\x00\x00\x00\x00\x00\x8c\x05error\x94.',), (b'\x80\x05\x95\x08\x00\x00\x00\x00\x00\x00\x00\x8c\x04info\x94.',), (None,)]
END
