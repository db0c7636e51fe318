"""A server whose segments have copies in an object store, and workers that read them there.

    python3 object_store.py PROGRAM FOLDER

Starts everything itself: moto as the object store, the service, three workers. The same questions are asked with workers, without any,
with a damaged cache, with a worker that was killed, and by a server that is recovered from the store after its disk was lost: the answers are
the same. While the store does not answer, an answer is the same or an error.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

PRIVATE = "private-token-of-the-project-s-tools"
PUBLIC = "public-token-of-the-project-s-tools"
SOURCE = "cloudflare.logs.prod"
QUESTIONS = [
    "select count(*) as n, count(distinct event_message) as messages from edge_logs",
    "select id, timestamp, event_message from edge_logs order by timestamp desc limit 20",
    "select r.status_code, count(*) as n, sum(r.bytes) as bytes from edge_logs cross join unnest(metadata) as m"
    " cross join unnest(m.response) as r group by r.status_code order by r.status_code",
    "select id from edge_logs where event_message like '%number 77%' order by id",
    "select timestamp_trunc(timestamp, minute) as minute, count(*) as n from edge_logs group by minute order by minute",
]

program, folder = sys.argv[1], Path(sys.argv[2]).absolute()
running = []


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


STORE, HTTP = free_port(), free_port()
WORKERS = [free_port() for _ in range(3)]
URL = "s3://logs/tidegate"


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "LOGFLARE_", "AWS_"))}
    return kept | {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{STORE}",
        "AWS_ALLOW_HTTP": "true",
        "NO_PROXY": "127.0.0.1",
    } | more


def start(name, command, **more):
    log = open(folder / f"{name}.log", "a")
    process = subprocess.Popen(command, env=environment(**more), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    running.append(process)
    return process


def fetch(port, path, method="GET", body=None, headers=None):
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers or {}, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=60) as answer:
        return answer.read()


def until(what, is_so, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            if is_so():
                return
        except (OSError, urllib.error.URLError):
            pass
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def metric(port, name):
    """The sum of a metric over its labels."""
    lines = fetch(port, "/metrics").decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def usable():
    return sum(worker["used"] for worker in json.loads(fetch(HTTP, "/ready"))["workers"])


def start_worker(port):
    return start(f"worker-{port}", [program, "worker", "--listen", f"127.0.0.1:{port}", "--store", URL, "--cache", str(folder / f"cache-{port}")])


def start_service(*more):
    service = start(
        "service", [program, "serve", "--listen", f"127.0.0.1:{HTTP}", "--data-dir", str(folder / "data"), *more],
        TIDEGATE_PRIVATE_ACCESS_TOKEN=PRIVATE, TIDEGATE_PUBLIC_ACCESS_TOKEN=PUBLIC, TIDEGATE_STORAGE_URL=URL,
        TIDEGATE_INGEST_FLUSH_ROWS="500", TIDEGATE_INGEST_FLUSH_INTERVAL="100ms", TIDEGATE_CLUSTER_LEAST_BYTES="0 B",
        TIDEGATE_LIMITS_REQUEST_TIME="5 s",
        TIDEGATE_CLUSTER_WORKERS=",".join(f"127.0.0.1:{port}" for port in WORKERS),
    )
    until("the service is ready", lambda: fetch(HTTP, "/ready"))
    return service


def answers():
    found = []
    for sql in QUESTIONS:
        query = urllib.parse.urlencode({"project": "default", "sql": sql})
        found.append(json.loads(fetch(HTTP, f"/api/endpoints/query/logs.all?{query}", headers={"x-api-key": PRIVATE}))["result"])
    return found


def send(part):
    events = [
        {
            "id": f"{part}-{number}",
            "timestamp": 1_763_633_702_000_000 + (part * 1000 + number) * 100_000,
            "project": "default",
            "event_message": f"number {part * 1000 + number}",
            "metadata": {"response": {"status_code": 200 + number % 4 * 100, "bytes": number}},
        }
        for number in range(1000)
    ]
    headers = {"x-api-key": PUBLIC, "content-type": "application/json"}
    fetch(HTTP, f"/api/logs?source_name={SOURCE}", "POST", json.dumps(events).encode(), headers)


def stop(process, how=signal.SIGTERM):
    process.send_signal(how)
    process.wait(60)


def requests():
    return sum(metric(port, "tidegate_worker_store_requests_total") for port in WORKERS)


def main():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    moto = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(STORE)]
    store = start("store", moto)
    until("the object store answers", lambda: fetch(STORE, "/logs", "PUT") is not None)
    service = start_service()
    for part in range(5):
        send(part)
        until("a flush", lambda: metric(HTTP, "tidegate_store_unflushed_bytes") == 0)
    alone = answers()
    assert alone[0] == [{"n": 5000, "messages": 5000}], alone[0]

    workers = [start_worker(port) for port in WORKERS]
    until("workers are used", lambda: usable() == 3)
    assert answers() == alone
    tasks = sum(metric(port, "tidegate_worker_tasks_asked_total") for port in WORKERS)
    cold = requests()
    assert tasks >= len(QUESTIONS) and cold > 0, (tasks, cold)
    assert answers() == alone
    warm = requests() - cold
    assert warm == 0, f"{warm} requests to the store for blocks that are in the cache"
    print(f"{len(QUESTIONS)} questions over {metric(HTTP, 'tidegate_store_segments'):.0f} segments in {tasks:.0f} tasks: "
          f"{cold:.0f} requests to the object store, then {warm:.0f}")

    # A cache that was lost or damaged is fetched again.
    stop(workers[0])
    for block in [path for path in (folder / f"cache-{WORKERS[0]}").rglob("*") if path.is_file()][::2]:
        content = bytearray(block.read_bytes())
        if content:
            content[len(content) // 2] ^= 1
            block.write_bytes(content)
    workers[0] = start_worker(WORKERS[0])
    until("the worker is used again", lambda: usable() == 3)
    assert answers() == alone

    stop(workers[1], signal.SIGKILL)
    assert answers() == alone

    # A worker without a cache, and an object store that hangs: the statement waits for it, up to the time of its request.
    stop(workers[2])
    shutil.rmtree(folder / f"cache-{WORKERS[2]}")
    store.send_signal(signal.SIGSTOP)
    try:
        workers[2] = start_worker(WORKERS[2])
        until("the worker is used again", lambda: usable() == 2)
        try:
            assert answers() == alone
        except urllib.error.HTTPError as error:
            assert error.code in (503, 504), error.read()
    finally:
        store.send_signal(signal.SIGCONT)
    assert answers() == alone
    for worker in [workers[0], workers[2]]:
        stop(worker)
    until("no worker is used", lambda: usable() == 0)
    assert answers() == alone
    print("the answers are the same with workers, without, with a damaged cache, and after a worker was killed")

    # The disk is lost. Of the copies another data folder is made, twice: the second time with what came in since the first.
    count = answers()[0][0]["n"]
    for part in (5, 6):
        puts = metric(HTTP, "tidegate_objects_catalog_put_total")
        send(part)
        until("a flush", lambda: metric(HTTP, "tidegate_store_unflushed_bytes") == 0)
        until("a copy of the catalog", lambda: metric(HTTP, "tidegate_objects_catalog_put_total") > puts)
        before = answers()
        stop(service, signal.SIGKILL)
        shutil.rmtree(folder / "data")
        service = start_service("--recover-from", URL)
        assert answers() == before
        count += 1000
        assert before[0][0]["n"] == count, (before, count)
    epoch = metric(HTTP, "tidegate_objects_epoch")
    assert epoch == 5, epoch
    print("the answers are the same after the disk was lost")


try:
    main()
finally:
    for process in reversed(running):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
