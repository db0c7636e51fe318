"""The OpenTelemetry SDK for Python over gRPC: 500 records in each of two runs, between which the server is restarted."""

import json
import logging
import os
import sys
import urllib.parse
import urllib.request

URL = os.environ["TIDEGATE_URL"]
PART = int(sys.argv[1])
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = URL
os.environ["OTEL_EXPORTER_OTLP_INSECURE"] = "true"
os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = (
    f"x-api-key={os.environ['TIDEGATE_PUBLIC_ACCESS_TOKEN']},x-source-name=postgres.logs"
)
if PART == 2:
    os.environ["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
os.environ["OTEL_RESOURCE_ATTRIBUTES"] = "service.name=shop,project=otel-grpc"

# The environment is read on import and on construction.
from opentelemetry._logs import LogRecord, SeverityNumber  # noqa: E402
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter  # noqa: E402
from opentelemetry.sdk._logs import LoggerProvider  # noqa: E402
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: E402


def rows(sql):
    """The rows of an ad-hoc query over the tables of logs.all."""
    query = urllib.parse.urlencode({"project": "otel-grpc", "sql": sql})
    request = urllib.request.Request(
        f"{URL}/api/endpoints/query/logs.all?{query}",
        headers={"X-API-KEY": os.environ["TIDEGATE_PRIVATE_ACCESS_TOKEN"]},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["result"]


complaints = []
handler = logging.Handler(logging.WARNING)
handler.emit = lambda record: complaints.append(record.getMessage())
logging.getLogger("opentelemetry").addHandler(handler)

provider = LoggerProvider()
provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
logger = provider.get_logger("checkout")
numbers = range((PART - 1) * 500, PART * 500)
for number in numbers:
    record = LogRecord(
        timestamp=1_763_633_702_123_456_789,
        severity_number=SeverityNumber.INFO,
        body=f"event {number}",
        attributes={"serial": number},
    )
    logger.emit(record)
assert provider.force_flush(), "the exporter did not end in time"
provider.shutdown()
assert not complaints, complaints

counted = rows("select count(*) as n, count(distinct event_message) as d from postgres_logs")
assert counted == [{"n": 500 * PART, "d": 500 * PART}], counted
found = rows(
    "select a.serial as serial, timestamp from postgres_logs cross join unnest(metadata) as m "
    f"cross join unnest(m.attributes) as a where event_message = 'event {numbers[7]}'"
)
assert found == [{"serial": numbers[7], "timestamp": 1763633702123456}], found
