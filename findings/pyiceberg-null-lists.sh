#!/usr/bin/env bash
# pyiceberg 0.12.0 writes a null list of records as an empty list, and so a null map of records.
#
# Expected: Iceberg's optional fields may be null, and null is not []. pyarrow writes both to Parquet as they are.
# Observed: append() of a table whose column is list<struct> or map<string, struct> puts [] in the place of null; the file
# itself has it, so the difference is gone. A null list of integers, and null within a list of lists, stay null. No error is raised.
#
# Why it matters: spans' events and links, and the items of a batch, are lists of records. "WHERE events IS NULL" finds nothing,
# and "has an empty list" is true of what never had the field.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install 'pyiceberg[sql-sqlite]==0.12.0' pyarrow==25.0.1
cat > run.py <<'PY'
import glob, os
import pyarrow as pa, pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{os.getcwd()}/w")
catalog.create_namespace("n")
record = pa.struct([("name", pa.string())])
rows = pa.table({
    "ints": pa.array([[1], None, []], pa.list_(pa.int64())),
    "lists": pa.array([[[1], None], None, []], pa.list_(pa.list_(pa.int64()))),
    "records": pa.array([[{"name": "a"}], None, []], pa.list_(record)),
    "map": pa.array([[("k", {"name": "a"})], None, []], pa.map_(pa.string(), record)),
})
table = catalog.create_table("n.t", schema=rows.schema)
table.append(rows)
file, = glob.glob("w/**/*.parquet", recursive=True)
pq.write_table(rows, "pyarrow.parquet")
for name in rows.column_names:
    print(name, "given", rows[name].to_pylist(), "pyarrow's file", pq.read_table("pyarrow.parquet")[name].to_pylist())
    print(name, "Iceberg's file", pq.read_table(file)[name].to_pylist(), "scan", table.scan().to_arrow()[name].to_pylist())
PY
v/bin/python run.py 2> errors | tee out
cat errors >&2
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
ints given [[1], None, []] pyarrow's file [[1], None, []]
ints Iceberg's file [[1], None, []] scan [[1], None, []]
lists given [[[1], None], None, []] pyarrow's file [[[1], None], None, []]
lists Iceberg's file [[[1], None], None, []] scan [[[1], None], None, []]
records given [[{'name': 'a'}], None, []] pyarrow's file [[{'name': 'a'}], None, []]
records Iceberg's file [[{'name': 'a'}], [], []] scan [[{'name': 'a'}], [], []]
map given [[('k', {'name': 'a'})], None, []] pyarrow's file [[('k', {'name': 'a'})], None, []]
map Iceberg's file [[('k', {'name': 'a'})], [], []] scan [[('k', {'name': 'a'})], [], []]
END
