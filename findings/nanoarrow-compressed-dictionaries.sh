#!/usr/bin/env bash
# nanoarrow 0.9.0 (PyPI) does not decompress the dictionaries of an Arrow stream: numbers come out as other numbers, texts raise errors.
#
# Expected: Arrow's IPC format compresses the buffers of a record batch, and a dictionary batch has such a batch within it. nanoarrow reads
# compressed streams: without dictionaries all values are right. pyarrow 26.0.1 and Polars 2.1.0 read them all.
# Observed, for a stream of pyarrow with LZ4 or ZSTD whose column of integers has the values 10^12, 2 * 10^12 and 3 * 10^12 as a dictionary: the first is
# 24, which is the length of the buffer before compression, the others are compressed bytes. No error is raised. For texts the
# same bytes are taken for offsets, and an error says that an offset or a buffer is wrong. Without compression all is right.
#
# Why it matters: dictionaries are how fields of logs with few values (hosts, tenants' numbers, statuses) are sent, and compression is on in
# most services. Whoever reads such a stream gets rows that join with nothing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install nanoarrow==0.9.0 pyarrow==26.0.1 polars==2.1.0
cat > run.py <<'PY'
import io
import nanoarrow as na, polars as pl, pyarrow as pa
print("nanoarrow", na.__version__)
numbers = pa.array([10**12 * (1 + i % 3) for i in range(300)], pa.int64())
texts = pa.array([f"host {i % 3}" for i in range(300)])
for name, column in {
    "numbers": numbers,
    "numbers, dictionary": numbers.dictionary_encode(),
    "texts": texts,
    "texts, dictionary": texts.dictionary_encode(),
}.items():
    for compression in (None, "lz4", "zstd"):
        rows, stream = pa.table({"c": column}), io.BytesIO()
        with pa.ipc.new_stream(stream, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(rows)
        stream = stream.getvalue()
        others = [pa.ipc.open_stream(stream).read_all()["c"].to_pylist(), pl.read_ipc_stream(io.BytesIO(stream))["c"].to_list()]
        try:
            answer = [row["c"] for row in na.ArrayStream.from_readable(io.BytesIO(stream)).read_all().to_pylist()]
            answer = "right" if answer == column.to_pylist() else f"wrong, the first value is {answer[0]}"
        except Exception as error:
            answer = type(error).__name__
        print(f"{name}, compression {compression}: nanoarrow {answer}; pyarrow and Polars", "right" if others == [column.to_pylist()] * 2 else others)
PY
v/bin/python run.py 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
nanoarrow 0.9.0
numbers, compression None: nanoarrow right; pyarrow and Polars right
numbers, compression lz4: nanoarrow right; pyarrow and Polars right
numbers, compression zstd: nanoarrow right; pyarrow and Polars right
numbers, dictionary, compression None: nanoarrow right; pyarrow and Polars right
numbers, dictionary, compression lz4: nanoarrow wrong, the first value is 24; pyarrow and Polars right
numbers, dictionary, compression zstd: nanoarrow wrong, the first value is 24; pyarrow and Polars right
texts, compression None: nanoarrow right; pyarrow and Polars right
texts, compression lz4: nanoarrow right; pyarrow and Polars right
texts, compression zstd: nanoarrow right; pyarrow and Polars right
texts, dictionary, compression None: nanoarrow right; pyarrow and Polars right
texts, dictionary, compression lz4: nanoarrow NanoarrowException; pyarrow and Polars right
texts, dictionary, compression zstd: nanoarrow NanoarrowException; pyarrow and Polars right
END
