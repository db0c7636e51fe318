#!/usr/bin/env bash
# hyparquet 1.33.0 with hyparquet-compressors 1.1.2 cannot read a Parquet file with LZ4 that has a column of nulls only.
#
# Expected: Parquet's codec LZ4_RAW is named as supported, and pyarrow, Polars and DuckDB read these files. A page without values is
# written as the LZ4 block of zero bytes, which is the single byte 0x00: a token with no literals and no match
# (LZ4's block format: the last sequence ends behind its literals).
# Observed: "lz4 offset out of range 0" for the whole file, since after a token without literals an offset is read in any case. Files of
# pyarrow 26.0.1 and Polars 2.1.0 have such a page (the empty dictionary); those of DuckDB 2.0.1 do not. With ZSTD or
# Snappy all are read.
#
# Why it matters: a log field that no event of a file has is such a column. It comes and goes with the data, so that
# some of the files of an archive cannot be opened in a browser.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts hyparquet@1.33.0 hyparquet-compressors@1.1.2
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1
cat > write.py <<'PY'
import duckdb, polars as pl, pyarrow as pa, pyarrow.parquet as pq
rows = pa.table({"message": ["a", "b"], "error": pa.array([None, None], pa.string())})
for codec in ("lz4", "zstd", "snappy"):
    pq.write_table(rows, f"pyarrow-{codec}.parquet", compression=codec)
pl.from_arrow(rows).write_parquet("polars-lz4.parquet", compression="lz4")
duckdb.sql("COPY (FROM rows) TO 'duckdb-lz4.parquet' (FORMAT parquet, CODEC lz4_raw)")
for name in ("pyarrow-lz4", "polars-lz4", "duckdb-lz4"):
    file = f"{name}.parquet"
    want = rows.to_pylist()
    assert pq.read_table(file).to_pylist() == want and pl.read_parquet(file).to_dicts() == want
    assert duckdb.sql(f"FROM '{file}'").fetchall() == [("a", None), ("b", None)]
print("pyarrow, Polars and DuckDB read all files")
PY
cat > read.mjs <<'JS'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
for (const name of ['pyarrow-zstd', 'pyarrow-snappy', 'duckdb-lz4', 'pyarrow-lz4', 'polars-lz4']) {
  try {
    console.log(name, JSON.stringify(await parquetReadObjects({ file: await asyncBufferFromFile(`${name}.parquet`), compressors })))
  } catch (error) {
    console.log(name, 'error:', error.message)
  }
}
JS
{ v/bin/python write.py; node read.mjs; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
pyarrow, Polars and DuckDB read all files
pyarrow-zstd [{"message":"a","error":null},{"message":"b","error":null}]
pyarrow-snappy [{"message":"a","error":null},{"message":"b","error":null}]
duckdb-lz4 [{"message":"a","error":null},{"message":"b","error":null}]
pyarrow-lz4 error: lz4 offset out of range 0
polars-lz4 error: lz4 offset out of range 0
END
