"""Senders of other services, in Python: python-logging-loki, elasticsearch, datadog-api-client, splunk-handler,
logtail-python.

Each sends 500 events in the first run and 500 in the second, between which the server is restarted. After the second
run all of them must be there once.
"""

import json
import logging
import os
import sys
import urllib.parse
import urllib.request

import logging_loki
from datadog_api_client import ApiClient, Configuration
from datadog_api_client.v2.api.logs_api import LogsApi
from datadog_api_client.v2.model.content_encoding import ContentEncoding
from datadog_api_client.v2.model.http_log import HTTPLog
from datadog_api_client.v2.model.http_log_item import HTTPLogItem
from elasticsearch import Elasticsearch, helpers
from logtail import LogtailHandler
from splunk_handler import SplunkHandler

URL = os.environ["TIDEGATE_URL"]
TOKEN = os.environ["TIDEGATE_PUBLIC_ACCESS_TOKEN"]
SOURCE = "postgres.logs"
PART = int(sys.argv[1])
NUMBERS = range((PART - 1) * 500, PART * 500)
TIME = "2025-11-20T10:15:02.123456Z"


def rows(project, sql):
    """The rows of an ad-hoc query over the tables of logs.all."""
    query = urllib.parse.urlencode({"project": project, "sql": sql})
    request = urllib.request.Request(
        f"{URL}/api/endpoints/query/logs.all?{query}",
        headers={"X-API-KEY": os.environ["TIDEGATE_PRIVATE_ACCESS_TOKEN"]},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["result"]


def all_there(project, columns, expected):
    """All 1,000 events are there once, and a field of each is read."""
    counted = rows(project, "select count(*) as n, count(distinct event_message) as d from postgres_logs")
    assert counted == [{"n": 500 * PART, "d": 500 * PART}], (project, counted)
    found = rows(
        project,
        f"select {columns} from postgres_logs left join unnest(metadata) as m where event_message = 'event {NUMBERS[7]}'",
    )
    assert found == [expected], (project, found)


def loki():
    handler = logging_loki.LokiHandler(
        url=f"{URL}/loki/api/v1/push?source_name={SOURCE}",
        tags={"project": "loki-python", "application": "shop"},
        auth=("anybody", TOKEN),
        version="1",
    )
    failures = []
    handler.handleError = lambda record: failures.append(sys.exc_info()[1])
    logger = logging.getLogger("checkout")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    for number in NUMBERS:
        logger.info("event %d", number, extra={"tags": {"number": str(number)}})
    assert not failures, failures
    expected = {"application": "shop", "logger": "checkout", "level": "info", "number": str(NUMBERS[7])}
    columns = "m.application as application, m.logger as logger, m.severity as level, m.number as number"
    all_there("loki-python", columns, expected)


def elasticsearch():
    client = Elasticsearch(URL, api_key=("id", TOKEN))
    assert client.info()["version"]["number"].startswith("9."), client.info()
    actions = (
        {
            "_op_type": "create",
            "_index": SOURCE,
            "project": "elasticsearch-python",
            "@timestamp": TIME,
            "message": f"event {number}",
            "metadata": {"serial": number},
        }
        for number in NUMBERS
    )
    sent, failures = helpers.bulk(client, actions, chunk_size=100)
    assert (sent, failures) == (500, []), (sent, failures)
    # What cannot be stored is told for the event alone.
    bad = [{"_op_type": "create", "_index": "nowhere", "message": "lost"}, {"_op_type": "delete", "_index": SOURCE, "_id": "7"}]
    _, failures = helpers.bulk(client, bad, raise_on_error=False)
    statuses = [next(iter(failure.values()))["status"] for failure in failures]
    assert statuses == [401, 400], failures
    all_there("elasticsearch-python", "timestamp, m.serial as serial", {"timestamp": 1763633702123456, "serial": NUMBERS[7]})


def datadog():
    configuration = Configuration(host=URL, api_key={"apiKeyAuth": TOKEN}, enable_retry=True)
    # The host is taken as it is only where the operation has no list of its own.
    configuration.server_operation_index["v2.submit_log"] = 1
    configuration.server_operation_variables["v2.submit_log"] = {
        "name": URL.split("://")[1],
        "protocol": "http",
    }
    with ApiClient(configuration) as client:
        api = LogsApi(client)
        for start in range(NUMBERS.start, NUMBERS.stop, 100):
            items = [
                HTTPLogItem(message=f"event {number}", service="shop", ddsource="python", hostname="h", project="datadog-python", number=str(number))
                for number in range(start, start + 100)
            ]
            encoding = [ContentEncoding("gzip"), ContentEncoding("deflate")][start // 100 % 2]
            api.submit_log(HTTPLog(items), content_encoding=encoding)
    expected = {"service": "shop", "source": "python", "number": str(NUMBERS[7])}
    all_there("datadog-python", "m.service as service, m.ddsource as source, m.number as number", expected)


def splunk():
    # Its events are texts without a project, so an endpoint of its own reads them.
    private = {"X-API-KEY": os.environ["TIDEGATE_PRIVATE_ACCESS_TOKEN"], "Content-Type": "application/json"}
    if PART == 1:
        query = (
            f"select t.event_message, t.metadata from `{SOURCE}` as t cross join unnest(t.metadata) as m "
            "where m.sourcetype = 'checkout' order by t.event_message"
        )
        endpoint = json.dumps({"name": "splunk.all", "query": query}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{URL}/api/endpoints", endpoint, private), timeout=30).close()
    handler = SplunkHandler(
        host="h",
        port=0,
        url=f"{URL}/services/collector/event?source_name={SOURCE}",
        protocol="http",
        verify=False,
        token=TOKEN,
        index="main",
        source="shop",
        sourcetype="checkout",
        hostname="h",
        flush_interval=0.2,
        force_keep_ahead=True,
    )
    logger = logging.getLogger("splunk")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    for number in NUMBERS:
        logger.info("splunk event %04d", number)
    handler.close()
    request = urllib.request.Request(f"{URL}/api/endpoints/query/splunk.all", headers=private)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = json.load(answer)["result"]
    assert [row["event_message"] for row in found] == [f"splunk event {n:04}" for n in range(500 * PART)], found[:3]
    fields = {"host": "h", "source": "shop", "sourcetype": "checkout", "index": "main"}
    # The fields of other senders are NULL.
    filled = [{name: value for name, value in row["metadata"][0].items() if value is not None} for row in found]
    assert filled == [fields] * len(found), filled[0]


def logtail():
    project = "logtail-python"
    handler = LogtailHandler(source_token=TOKEN, host=f"{URL}/?source_name={SOURCE}", drop_extra_events=False)
    logger = logging.getLogger("logtail")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    for number in NUMBERS:
        logger.info("event %d", number, extra={"number": number, "project": project})
    handler.flush()
    # Other senders to this source send it as text, so it is read as text.
    all_there(project, "m.level as level, m.number as number", {"level": "info", "number": str(NUMBERS[7])})


loki()
elasticsearch()
datadog()
splunk()
logtail()
