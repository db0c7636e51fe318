#!/usr/bin/env bash
# DuckDB 2.0.1 loses the name of the field where a Parquet file has a repeated record of one field.
#
# Expected, by Parquet's rules for nested types: a repeated field that is not in a LIST or MAP is a required list whose elements have the
# type of the field. So "repeated group n { optional int32 a }" is a list of records with a field a. pyarrow 26.0.1 and Polars 2.1.0
# read it so, and DuckDB itself reads a list of records if the group has two fields.
# Observed: with one field it is INTEGER[], and n[1].a is an error. A record and a value without a record are the same then.
# No error is raised when the file is read.
#
# Why it matters: writers without the annotation LIST, such as @dsnp/parquetjs 1.8.8 and others of its age, write lists of records in this
# way. A saved query over such files breaks, or answers otherwise, on the day a second field is added or removed.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @dsnp/parquetjs@1.8.8
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0
cat > write.cjs <<'JS'
const { ParquetSchema, ParquetWriter } = require('@dsnp/parquetjs');
const a = { type: 'INT32', optional: true }, b = { type: 'UTF8', optional: true };
(async () => {
  for (const [file, fields] of [['one', { a }], ['two', { a, b }]]) {
    const writer = await ParquetWriter.openFile(new ParquetSchema({ n: { repeated: true, fields } }), `${file}.parquet`);
    await writer.appendRow({ n: [{ a: 1 }, {}] });
    await writer.close();
  }
})();
JS
cat > run.py <<'PY'
import duckdb, polars as pl, pyarrow.parquet as pq
for file in ("one.parquet", "two.parquet"):
    print(file, "pyarrow", pq.read_table(file)["n"].to_pylist())
    print(file, "Polars ", pl.read_parquet(file)["n"].to_list())
    print(file, "DuckDB ", duckdb.sql(f"SELECT typeof(n), n FROM '{file}'").fetchall())
    try:
        print(file, "DuckDB  n[1].a", duckdb.sql(f"SELECT n[1].a FROM '{file}'").fetchall())
    except duckdb.Error as error:
        print(file, "DuckDB  n[1].a", type(error).__name__)
PY
{ node write.cjs; v/bin/python run.py; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
one.parquet pyarrow [[{'a': 1}, {'a': None}]]
one.parquet Polars  [[{'a': 1}, {'a': None}]]
one.parquet DuckDB  [('INTEGER[]', [1, None])]
one.parquet DuckDB  n[1].a BinderException
two.parquet pyarrow [[{'a': 1, 'b': None}, {'a': None, 'b': None}]]
two.parquet Polars  [[{'a': 1, 'b': None}, {'a': None, 'b': None}]]
two.parquet DuckDB  [('STRUCT(a INTEGER, b VARCHAR)[]', [{'a': 1, 'b': None}, {'a': None, 'b': None}])]
two.parquet DuckDB  n[1].a [(1,)]
END
