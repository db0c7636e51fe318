#!/usr/bin/env bash
# wasmtime 50.0.1 (PyPI) passes other integers to a WebAssembly component than it is given, if they are outside the type of the parameter.
#
# Expected: a component's functions have types; a value that the type does not have is an error, as wasmtime makes it of 1.5 for an integer and of
# "ab" for a char. pyarrow 26.0.1 refuses such integers.
# Observed: for u8 256 arrives as 0 and -1 as 255; for s64 2**63 arrives as -2**63; for u64 2**64 arrives as 0. No error is raised.
#
# Why it matters: ids of traces and hashes are unsigned integers of 64 bits in one place and signed ones in another. A plug-in
# that filters or counts by them gets other ids, and one that is given a status of 999 in a u8 sees 231.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install wasmtime==50.0.1 pyarrow==26.0.1
cat > run.py <<'PY'
import importlib.metadata
import pyarrow as pa
from wasmtime import Engine, Store
from wasmtime.component import Component, Linker
# Each function returns what it was given.
types = {"u8": "i32", "s64": "i64", "u64": "i64"}
core = "".join(f'(func (export "{name}") (param {wasm}) (result {wasm}) local.get 0)' for name, wasm in types.items())
lifted = "".join(f'(func (export "{name}") (param "x" {name}) (result {name}) (canon lift (core func $i "{name}")))' for name in types)
engine = Engine()
store = Store(engine)
instance = Linker(engine).instantiate(store, Component(engine, f"(component (core module $m {core}) (core instance $i (instantiate $m)) {lifted})"))
print("wasmtime", importlib.metadata.version("wasmtime"))
def tried(call):
    try:
        return repr(call())
    except Exception as error:
        return type(error).__name__
for name, values in {"u8": [255, 256, -1, 999], "s64": [-1, 2**63], "u64": [2**64 - 1, 2**64, -1]}.items():
    function = instance.get_func(store, name)
    arrow = {"u8": pa.uint8(), "s64": pa.int64(), "u64": pa.uint64()}[name]
    for value in values:
        print(f"{name} {value!r}: component", tried(lambda: function(store, value)), "pyarrow", tried(lambda: pa.scalar(value, arrow).as_py()))
PY
v/bin/python run.py 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
wasmtime 50.0.1
u8 255: component 255 pyarrow 255
u8 256: component 0 pyarrow ArrowInvalid
u8 -1: component 255 pyarrow OverflowError
u8 999: component 231 pyarrow ArrowInvalid
s64 -1: component -1 pyarrow -1
s64 9223372036854775808: component -9223372036854775808 pyarrow OverflowError
u64 18446744073709551615: component 18446744073709551615 pyarrow 18446744073709551615
u64 18446744073709551616: component 0 pyarrow OverflowError
u64 -1: component 18446744073709551615 pyarrow OverflowError
END
