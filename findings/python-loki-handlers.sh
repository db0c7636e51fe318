#!/usr/bin/env bash
# Two handlers of Python for Loki: loki-logger-handler 1.1.2 puts records under labels of other records, or loses them, and
# python-logging-loki 0.3.1 sends the time of sending.
#
# Expected: a record comes with its own labels, and a label's value is written as text, whatever its type; its time is when it was logged
# (LogRecord.created), above all if it waits in a queue.
# Observed:
# - loki-logger-handler joins the records of a batch into streams by the sorted values of their labels, without the names. "from a to b"
#   comes under the labels of "from b to a". A record one of whose labels is a number is not sent at all. With enable_self_errors = False,
#   the default, nothing is shown.
# - python-logging-loki's LokiQueueHandler: of three records that are logged at once, each has the time at which the one before it
#   was answered. No error is raised.
#
# Why it matters: labels are what Loki finds logs by, so that these are found under another host or user. Times that
# hang on how fast Loki answers are wrong most of all during an outage.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install loki-logger-handler==1.1.2 python-logging-loki==0.3.1
cat > run.py <<'PY'
import gzip, importlib.metadata, json, logging, queue, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import logging_loki
from loki_logger_handler.loki_logger_handler import LokiLoggerHandler
came = []
class Loki(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        came.extend(json.loads(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)["streams"])
        time.sleep(1)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Loki)
threading.Thread(target=server.serve_forever, daemon=True).start()
def wait(count):
    for _ in range(300):
        if sum(len(stream["values"]) for stream in came) >= count:
            break
        time.sleep(0.1)
    time.sleep(1.5)
url = f"http://127.0.0.1:{server.server_port}/loki/api/v1/push"
for name in ("loki-logger-handler", "python-logging-loki"):
    print(name, importlib.metadata.version(name))

logger = logging.getLogger("one")
logger.setLevel(logging.INFO)
logger.addHandler(LokiLoggerHandler(url, labels={"app": "x"}, label_keys=("source", "target", "status"), timeout=1))
logger.info("from b to a", extra={"source": "b", "target": "a"})
logger.info("from a to b", extra={"source": "a", "target": "b"})
logger.info("status 500", extra={"status": 500})
wait(2)
for stream in came:
    for value in stream["values"]:
        print("loki-logger-handler", json.dumps(stream["stream"]), json.loads(value[1])["message"])
came.clear()

logger = logging.getLogger("two")
logger.setLevel(logging.INFO)
logger.addHandler(logging_loki.LokiQueueHandler(queue.Queue(-1), url=url, version="1"))
for i in range(3):
    logger.info("record %d", i)
logged = time.time()
wait(3)
for stream in came:
    for at, line in stream["values"]:
        print("python-logging-loki", line, "has a time at which all three had been logged:", int(at) / 1e9 > logged + 0.5)
PY
v/bin/python run.py 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
loki-logger-handler 1.1.2
python-logging-loki 0.3.1
loki-logger-handler {"app": "x", "source": "b", "target": "a"} from b to a
loki-logger-handler {"app": "x", "source": "b", "target": "a"} from a to b
python-logging-loki record 0 has a time at which all three had been logged: False
python-logging-loki record 1 has a time at which all three had been logged: True
python-logging-loki record 2 has a time at which all three had been logged: True
END
