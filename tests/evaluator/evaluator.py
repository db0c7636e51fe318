"""The reference evaluator of GoogleSQL: the package `zetasql`, Google's C++ as WebAssembly.

It runs a statement without tables and gives the rows as Python values: numbers, texts, None, lists, dicts of fields; a
Decimal for NUMERIC and BIGNUMERIC; `Json` for JSON; texts for dates, times and INTERVAL, in the forms of the HTTP
interface; a number of microseconds for TIMESTAMP; a text as the interface has it for RANGE.
"""

import base64
import datetime
import os
import re
import sys
from dataclasses import dataclass
from decimal import Context, Decimal

import wasmtime
import zetasql.wasi
from zetasql import types
from zetasql.api import CatalogBuilder
from zetasql.core import wasm_client
from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as messages

# What the language has and BigQuery has not.
NOT_IN_BIGQUERY = {
    "FEATURE_TIMESTAMP_NANOS",
    "FEATURE_TIMESTAMP_PICOS",
    "FEATURE_TIMESTAMP_PRECISION",
    "FEATURE_ENABLE_MEASURES",
    "FEATURE_UUID_TYPE",
}
# What the package says of what it cannot do.
NOT_THERE = re.compile(r"^\[(UNIMPLEMENTED|INTERNAL)\]|not supported yet")
DIGITS = Context(prec=100)
SCALES = {"numeric_value": 9, "bignumeric_value": 38}


class Refused(Exception):
    """The statement is wrong, or failed."""


class Unknown(Exception):
    """The package could not say: a fault of its own."""


@dataclass(frozen=True)
class Json:
    """A JSON value as its text."""

    text: str


class Module(wasmtime.Module):
    """A module that is compiled once for each environment, which takes half a minute."""

    @classmethod
    def from_file(cls, engine, path):
        kept = os.path.join(sys.prefix, "evaluator.compiled")
        if os.path.exists(kept):
            return wasmtime.Module.deserialize_file(engine, kept)
        module = wasmtime.Module.from_file(engine, path)
        with open(kept + ".part", "wb") as file:
            file.write(module.serialize())
        os.replace(kept + ".part", kept)
        return module


wasm_client.Module = Module


class Evaluator:
    def __init__(self):
        language = types.LanguageOptions.maximum_features()
        language.enabled_language_features = [
            feature
            for feature in language.enabled_language_features
            if (feature if isinstance(feature, str) else types.LanguageFeature(feature).name) not in NOT_IN_BIGQUERY
        ]
        language.product_mode = types.ProductMode.PRODUCT_EXTERNAL
        functions = types.ZetaSQLBuiltinFunctionOptions(language_options=language)
        self.catalog = CatalogBuilder("none").with_builtin_functions(functions).build().to_proto()
        self.options = types.AnalyzerOptions(language_options=language, default_timezone="UTC").to_proto()
        self.start()

    def start(self):
        self.client = wasm_client.WasmClient(os.path.join(os.path.dirname(zetasql.wasi.__file__), "zetasql.wasm"))
        request = messages.RegisterCatalogRequest(simple_catalog=self.catalog)
        self.known = self.called("RegisterCatalog", request, messages.RegisterResponse).registered_id

    def called(self, name, request, *response):
        return self.client.call_grpc_func(f"ZetaSqlLocalService_{name}", request, *response)

    def rows(self, sql):
        """The rows of a statement. Raises Refused or Unknown."""
        try:
            return self.answer(sql)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            self.start()
            raise Unknown("the package ended in a trap") from error
        except Exception as error:
            is_refusal = type(error).__module__.startswith("zetasql") and not NOT_THERE.search(str(error))
            raise (Refused if is_refusal else Unknown)(str(error)) from error

    def answer(self, sql):
        request = messages.PrepareQueryRequest(sql=sql, options=self.options, registered_catalog_id=self.known)
        prepared = self.called("PrepareQuery", request, messages.PrepareQueryResponse).prepared
        kinds = [column.type for column in prepared.columns]
        prepared_id = prepared.prepared_query_id
        try:
            request = messages.EvaluateQueryRequest(prepared_query_id=prepared_id)
            table = self.called("EvaluateQuery", request, messages.EvaluateQueryResponse).content.table_data
            return [[value_of(cell, kind) for cell, kind in zip(row.cell, kinds)] for row in table.row]
        finally:
            self.called("UnprepareQuery", messages.UnprepareQueryRequest(prepared_query_id=prepared_id))


def value_of(value, kind):
    which = value.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        return [value_of(element, kind.array_type.element_type) for element in value.array_value.element]
    if which == "struct_value":
        fields = zip(value.struct_value.field, kind.struct_type.field)
        return {"": [value_of(field, named.field_type) for field, named in fields]}
    if which == "range_value":
        ends = (value.range_value.start, value.range_value.end)
        start, end = (end_of(value_of(end, kind.range_type.element_type)) for end in ends)
        return f"[{start}, {end})"
    held = getattr(value, which)
    if which == "bytes_value":
        return base64.b64encode(held).decode()
    if which == "date_value":
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=held)).isoformat()
    if which == "timestamp_value":
        return held.seconds * 1_000_000 + held.nanos // 1000
    if which == "datetime_value":
        bits = held.bit_field_datetime_seconds
        day = f"{bits >> 26:04}-{bits >> 22 & 15:02}-{bits >> 17 & 31:02}"
        return f"{day}T{clock(bits & 0x1FFFF, held.nanos)}"
    if which == "time_value":
        return clock(held >> 30, held & 0x3FFFFFFF)
    if which in SCALES:
        return DIGITS.scaleb(Decimal(int.from_bytes(held, "little", signed=True)), -SCALES[which])
    if which == "json_value":
        return Json(held)
    if which == "interval_value":
        return interval(held)
    return held


def end_of(value):
    """An end of a range within its text."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        time = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
        return f"{time:%Y-%m-%d %H:%M:%S}{fraction(time.microsecond)}+00"
    return value.replace("T", " ")


def clock(bits, nanos):
    return f"{bits >> 12 & 31:02}:{bits >> 6 & 63:02}:{bits & 63:02}{fraction(nanos // 1000)}"


def fraction(micros):
    """With three digits where they suffice, else six."""
    if not micros:
        return ""
    return f".{micros // 1000:03}" if micros % 1000 == 0 else f".{micros:06}"


def interval(held):
    """8 bytes of microseconds, 4 of days, 4 with the months as a sign and 18 bits."""
    micros = int.from_bytes(held[:8], "little", signed=True)
    days = int.from_bytes(held[8:12], "little", signed=True)
    bits = int.from_bytes(held[12:16], "little")
    months = bits >> 13 & 0x3FFFF
    years = f"{'-' if bits >> 31 and months else ''}{months // 12}-{months % 12}"
    seconds, rest = divmod(abs(micros), 1_000_000)
    time = f"{seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}{fraction(rest)}"
    return f"{years} {days} {'-' if micros < 0 else ''}{time}"
