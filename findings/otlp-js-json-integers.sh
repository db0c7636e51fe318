#!/usr/bin/env bash
# OpenTelemetry for JavaScript (otlp-transformer 0.301.1, sdk-logs 3.1.1) writes one log record in two ways: in OTLP/JSON as an integer that
# is out of range, in OTLP/Protobuf as a double.
#
# Expected, by opentelemetry.proto and the JSON mapping of Protocol Buffers: intValue is an int64, from -2^63 to 2^63-1, and a double
# that is not a number is written as "NaN". Both encodings of a record say the same.
# Observed: every Number without a fraction is an intValue in JSON: 1e20, 2^63 and 1e300 as well, and even -2^63 is written with other digits
# (-9223372036854776000), which are out of range. NaN is written as null, which is no value. Protobuf has -2^63 as it is, and doubles for the others. The JSON parser of
# Protocol Buffers for Python refuses each of these integers, and a request with one of them is one document.
#
# Why it matters: OTLP/JSON is what a browser and `http/json` send. Byte counters and hashes reach such sizes, and one of them
# can cost its whole batch.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @opentelemetry/otlp-transformer@0.301.1 @opentelemetry/sdk-logs@3.1.1
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install opentelemetry-proto==1.45.2
cat > write.cjs <<'JS'
const { JsonLogsSerializer, ProtobufLogsSerializer } = require('@opentelemetry/otlp-transformer');
const { InMemoryLogRecordExporter, LoggerProvider, SimpleLogRecordProcessor } = require('@opentelemetry/sdk-logs');
const { writeFileSync } = require('fs');
(async () => {
  const exporter = new InMemoryLogRecordExporter();
  const provider = new LoggerProvider({ processors: [new SimpleLogRecordProcessor({ exporter })] });
  for (const n of [42, 2 ** 53, 1e20, 2 ** 63, -(2 ** 63), 1e300, NaN]) provider.getLogger('app').emit({ body: `n is ${n}`, attributes: { n } });
  await provider.forceFlush();
  const records = exporter.getFinishedLogRecords();
  const json = JsonLogsSerializer.serializeRequest(records);
  writeFileSync('logs.json', json);
  writeFileSync('logs.pb', ProtobufLogsSerializer.serializeRequest(records));
})();
JS
cat > read.py <<'PY'
import re
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
request = ExportLogsServiceRequest()
request.ParseFromString(open("logs.pb", "rb").read())
for record in request.resource_logs[0].scope_logs[0].log_records:
    print("Protobuf", str(record.attributes[0].value).strip())
for value in re.findall(r'"key":"n","value":(\{[^}]*\})', open("logs.json").read()):
    try:
        print("JSON", value, "is read as", str(json_format.Parse(value, AnyValue())).strip() or "no value")
    except json_format.ParseError:
        print("JSON", value, "is refused")
PY
{ node write.cjs; v/bin/python read.py; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
Protobuf int_value: 42
Protobuf int_value: 9007199254740992
Protobuf double_value: 1e+20
Protobuf double_value: 9.2233720368547758e+18
Protobuf int_value: -9223372036854775808
Protobuf double_value: 1e+300
Protobuf double_value: nan
JSON {"intValue":42} is read as int_value: 42
JSON {"intValue":9007199254740992} is read as int_value: 9007199254740992
JSON {"intValue":100000000000000000000} is refused
JSON {"intValue":9223372036854776000} is refused
JSON {"intValue":-9223372036854776000} is refused
JSON {"intValue":1e+300} is refused
JSON {"doubleValue":null} is read as no value
END
