#!/usr/bin/env bash
# OpenTelemetry for Python 1.45.2: one log record whose body has an integer beyond 64 bits discards the whole batch, and
# force_flush() says True.
#
# Expected: a value that cannot be encoded costs itself or its record, and force_flush() tells, as its documentation has it, whether the
# records were flushed. The same value as an attribute does cost only itself: the record comes without it (though
# with dropped_attributes_count 0, as if there had been none).
# Observed: seven records are emitted, one of them with 2**63 in its body. None is sent. The only sign is a line in the log of the SDK itself, which this
# script turns off; force_flush() returns True. Later records come again.
#
# Why it matters: by default a batch is 512 records. The events that stand around the odd one are missing in the log store, and
# an application that flushes before it exits is told that all went well.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
cat > run.py <<'PY'
import gzip, logging, threading, warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
came = []
class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportLogsServiceRequest.FromString(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        came.extend(record for resource in request.resource_logs for scope in resource.scope_logs for record in scope.log_records)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args):
        pass
server = HTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
provider = LoggerProvider()
provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"http://127.0.0.1:{server.server_port}/v1/logs")))
logger = provider.get_logger("app")
def emit(**record):
    logger.emit(LogRecord(timestamp=1, **record))
def flush(what):
    answer = provider.force_flush()
    print(f"{what}: force_flush() is {answer}, {len(came)} records came", [(r.body.string_value, len(r.attributes), r.dropped_attributes_count) for r in came])
    came.clear()
for i in range(3):
    emit(body=f"before {i}")
emit(body={"job": "done", "bytes": 2**63})
for i in range(3):
    emit(body=f"after {i}")
flush("2**63 in a body")
emit(body="before")
emit(body="odd", attributes={"job": "done", "bytes": 2**63})
flush("2**63 in an attribute")
PY
v/bin/python run.py 2>/dev/null | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
2**63 in a body: force_flush() is True, 0 records came []
2**63 in an attribute: force_flush() is True, 2 records came [('before', 0, 0), ('odd', 1, 0)]
END
