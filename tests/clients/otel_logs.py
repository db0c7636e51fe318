"""The OpenTelemetry SDK for Python: OTLP over HTTP in Protocol Buffers, set up by its environment variables alone."""

import json
import logging
import os
import time
import urllib.parse
import urllib.request

URL = os.environ["TIDEGATE_URL"]
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = URL
os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = (
    f"x-api-key={os.environ['TIDEGATE_PUBLIC_ACCESS_TOKEN']},x-source-name=postgres.logs"
)
os.environ["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
os.environ["OTEL_RESOURCE_ATTRIBUTES"] = "service.name=shop,project=otel-python"

# The environment is read on import and on construction.
from opentelemetry._logs import LogRecord, SeverityNumber  # noqa: E402
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: E402
from opentelemetry.sdk._logs import LoggerProvider  # noqa: E402
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: E402

TIME = 1_763_633_702_123_456_789


def rows(sql):
    """The rows of an ad-hoc query over the tables of logs.all."""
    query = urllib.parse.urlencode({"project": "otel-python", "sql": sql})
    request = urllib.request.Request(
        f"{URL}/api/endpoints/query/logs.all?{query}",
        headers={"X-API-KEY": os.environ["TIDEGATE_PRIVATE_ACCESS_TOKEN"]},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["result"]


def main():
    # What an exporter cannot send, it only logs.
    complaints = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: complaints.append(record.getMessage())
    logging.getLogger("opentelemetry").addHandler(handler)

    began = time.time_ns() // 1000
    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    logger = provider.get_logger("checkout", "1.2.3")
    logger.emit(
        LogRecord(
            timestamp=TIME,
            trace_id=0x0AF7651916CD43DD8448EB211C80319C,
            span_id=0xB7AD6B7169203331,
            severity_text="ERROR",
            severity_number=SeverityNumber.ERROR,
            body="payment failed",
            attributes={
                "http.response.status_code": 502,
                "big": -(2**63),
                "retry": True,
                "ratio": 0.5,
                "ids": [1, 2],
                "raw": b"\x00\xff\x10",
            },
        )
    )
    logger.emit(LogRecord(timestamp=TIME, body={"order": 7, "items": ["a"]}))
    logger.emit(LogRecord(event_name="cart.emptied"))
    for number in range(2000):
        logger.emit(LogRecord(timestamp=TIME, body=f"one of many {number}"))
    assert provider.force_flush(), "the exporter did not end in time"
    provider.shutdown()
    assert not complaints, complaints

    found = rows(
        "select event_message, timestamp, m.type as type, m.severity_number as severity, m.severity_text as level, "
        "m.trace_id as trace, m.span_id as span, r.`service.name` as service, s.name as scope, s.version as version, "
        "a.`http.response.status_code` as status, a.big as big, a.retry as retry, a.ratio as ratio, a.raw as raw, "
        "array_length(a.ids) as ids, b.`order` as number "
        "from postgres_logs cross join unnest(metadata) as m cross join unnest(m.resource) as r "
        "cross join unnest(m.scope) as s left join unnest(m.attributes) as a left join unnest(m.body) as b "
        "where event_message not like 'one of many%' order by event_message"
    )
    named, failed, ordered = found
    # Nobody gave this one a time; it was seen when it was made.
    assert began <= named.pop("timestamp") <= time.time_ns() // 1000, found
    none = dict.fromkeys(
        "severity level trace span status big retry ratio raw ids number".split()
    )
    common = {"type": "otel_log", "service": "shop", "scope": "checkout", "version": "1.2.3"}
    timed = {"timestamp": TIME // 1000}
    expected = none | common | {"event_message": "cart.emptied"}
    assert named == expected, (named, expected)
    expected = none | common | timed | {
        "event_message": "payment failed",
        "severity": 17,
        "level": "ERROR",
        "trace": "0af7651916cd43dd8448eb211c80319c",
        "span": "b7ad6b7169203331",
        "status": 502,
        "big": -(2**63),
        "retry": True,
        "ratio": 0.5,
        "raw": "AP8Q",
        "ids": 2,
    }
    assert failed == expected, (failed, expected)
    expected = none | common | timed | {"event_message": '{"order":7,"items":["a"]}', "number": 7}
    assert ordered == expected, (ordered, expected)
    counted = rows("select count(*) as c from postgres_logs where event_message like 'one of many%'")
    assert counted == [{"c": 2000}], counted


main()
