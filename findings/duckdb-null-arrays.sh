#!/usr/bin/env bash
# DuckDB 2.0.1 writes a null of an ARRAY column to Parquet as two entries, so that pyarrow 26.0.1 cannot read the column and hyparquet
# 1.33.0 (npm) gives later rows the arrays of earlier ones.
#
# Expected, by Parquet's description of nested types: a list that is null is one entry, with repetition level 0; an entry with level 1 continues
# the list of the entry before. Four rows, one of them null and the others of two values, are 7 entries. A column INT[] is written so.
# Observed: a column INT[2] has 8 entries. pyarrow says that the list is longer than its values. hyparquet gives null for two rows, the array of row 2 to row 3,
# and loses that of row 3; other columns of the same rows are right. DuckDB itself, Polars 2.1.0 and DataFusion 55.0.0 read it as it was meant.
#
# Why it matters: arrays of fixed length are the buckets of a histogram, addresses and embeddings of messages. A table that DuckDB exported
# cannot be opened elsewhere, or shows each event with the buckets of the one before.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts hyparquet@1.33.0
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0 datafusion==55.0.0
cat > run.py <<'PY'
import duckdb, polars as pl, pyarrow.parquet as pq
from datafusion import SessionContext
for kind in ("INT[]", "INT[2]"):
    file = "list.parquet" if kind == "INT[]" else "array.parquet"
    duckdb.sql(f"COPY (SELECT i, CASE WHEN i <> 1 THEN [i * 10, i * 10 + 1]::{kind} END AS a FROM range(4) r(i)) TO '{file}' (FORMAT parquet)")
    print(kind, "entries", pq.ParquetFile(file).metadata.row_group(0).column(1).num_values)
    try:
        print(kind, "pyarrow   ", pq.read_table(file)["a"].to_pylist())
    except Exception as error:
        print(kind, "pyarrow   ", type(error).__name__, error)
    print(kind, "DuckDB    ", [row[0] for row in duckdb.sql(f"SELECT a FROM '{file}' ORDER BY i").fetchall()])
    print(kind, "Polars    ", pl.read_parquet(file)["a"].to_list())
    context = SessionContext()
    context.register_parquet("t", file)
    print(kind, "DataFusion", [row["a"] for row in context.sql("SELECT a FROM t ORDER BY i").to_pylist()])
PY
cat > run.mjs <<'JS'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
for (const [kind, file] of [['INT[]', 'list.parquet'], ['INT[2]', 'array.parquet']]) {
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file) });
  console.log(kind, 'hyparquet ', JSON.stringify(rows.map(({ i, a }) => [Number(i), a])));
}
JS
{ v/bin/python run.py; node run.mjs; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
INT[] entries 7
INT[] pyarrow    [[0, 1], None, [20, 21], [30, 31]]
INT[] DuckDB     [[0, 1], None, [20, 21], [30, 31]]
INT[] Polars     [[0, 1], None, [20, 21], [30, 31]]
INT[] DataFusion [[0, 1], None, [20, 21], [30, 31]]
INT[2] entries 8
INT[2] pyarrow    ArrowInvalid Length spanned by list offsets (7) larger than values array (length 6)
INT[2] DuckDB     [[0, 1], None, [20, 21], [30, 31]]
INT[2] Polars     [[0, 1], None, [20, 21], [30, 31]]
INT[2] DataFusion [[0, 1], None, [20, 21], [30, 31]]
INT[] hyparquet  [[0,[0,1]],[1,null],[2,[20,21]],[3,[30,31]]]
INT[2] hyparquet  [[0,[0,1]],[1,null],[2,null],[3,[20,21]]]
END
