"""Sends logs with real syslog daemons, over TCP and TLS, syslog-ng to Elasticsearch's `_bulk` too, while the service is stopped and started again.

    python3 syslog.py PROGRAM FOLDER rsyslog|syslog-ng|logger

Starts the service itself, because its senders must outlive it. Needs openssl and the daemon.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path

PRIVATE = "private-token-of-the-project-s-tools"
PUBLIC = "public-token-of-the-project-s-tools"
PLAIN, SECURE, BULK = "postgres.logs", "cloudflare.logs.prod", "gotrue.logs.prod"
COUNT = 1000
ELEMENT = f'[tidegate@32473 token="{PUBLIC}" source="{SECURE}"]'

program, folder, sender = sys.argv[1], Path(sys.argv[2]).absolute(), sys.argv[3]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


HTTP, TCP, TLS = free_port(), free_port(), free_port()


def certificates():
    """An authority, and a certificate for the service and for the sender."""
    run = lambda *arguments: subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=ca")
    for name in ["server", "client"]:
        run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", f"{name}.pem")


def start():
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "LOGFLARE_"))}
    environment |= {
        "TIDEGATE_PRIVATE_ACCESS_TOKEN": PRIVATE,
        "TIDEGATE_PUBLIC_ACCESS_TOKEN": PUBLIC,
        "TIDEGATE_SYSLOG_LISTEN": f"127.0.0.1:{TCP}",
        "TIDEGATE_SYSLOG_SOURCE": PLAIN,
        "TIDEGATE_SYSLOG_TLS_LISTEN": f"127.0.0.1:{TLS}",
        "TIDEGATE_SYSLOG_TLS_CERTIFICATE": str(folder / "server.pem"),
        "TIDEGATE_SYSLOG_TLS_KEY": str(folder / "server.key"),
        "TIDEGATE_SYSLOG_CLIENT_CA": str(folder / "ca.pem"),
    }
    log = open(folder / "service.log", "a")
    service = subprocess.Popen(
        [program, "serve", "--listen", f"127.0.0.1:{HTTP}", "--data-dir", str(folder / "data")],
        env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    until("the service is ready", lambda: request("GET", "/ready"))
    return service


def stop(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (0, -15, 143), f"{process.args} ended with {process.returncode}"


def request(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-api-key": PRIVATE, "content-type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{HTTP}{path}", data, headers, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as answer:
        return json.load(answer)


def rows(source, columns="event_message"):
    name = f"rows-{uuid.uuid4()}"
    text = f"select {columns} from `{source}` left join unnest(metadata) as m where event_message like '%message %' order by event_message"
    request("POST", "/api/endpoints", {"name": name, "query": text, "max_limit": 5000})
    return request("GET", f"/api/endpoints/query/{name}")["result"]


def until(what, done, seconds=90):
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            last = done()
            if last:
                return
        except OSError as error:
            last = error
        time.sleep(0.2)
    sys.exit(f"{sender}: not in time: {what} ({last})\n" + (folder / "service.log").read_text()[-600:])


RSYSLOG = f"""
global(workDirectory="{folder}" DefaultNetstreamDriverCAFile="{folder}/ca.pem"
       DefaultNetstreamDriverCertFile="{folder}/client.pem" DefaultNetstreamDriverKeyFile="{folder}/client.key")
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="{folder}/log" RateLimit.Interval="0")
template(name="tidegate" type="string"
  string="<%PRI%>1 %TIMESTAMP:::date-rfc3339% %HOSTNAME% %APP-NAME% %PROCID% %MSGID% {ELEMENT.replace('"', chr(92) + '"')} %msg:::sp-if-no-1st-sp%%msg:::drop-last-lf%\\n")
action(type="omfwd" target="127.0.0.1" port="{TCP}" protocol="tcp" template="RSYSLOG_TraditionalForwardFormat"
       queue.type="LinkedList" action.resumeRetryCount="-1" action.resumeInterval="1")
action(type="omfwd" target="127.0.0.1" port="{TLS}" protocol="tcp" TCP_Framing="octet-counted" template="tidegate"
       StreamDriver="gtls" StreamDriverMode="1" StreamDriverAuthMode="x509/name" StreamDriverPermittedPeers="localhost"
       queue.type="LinkedList" action.resumeRetryCount="-1" action.resumeInterval="1")
"""

SYSLOG_NG = f"""@version: 3.38
@include "scl/elasticsearch/elastic-http.conf"
options {{ time-reopen(1); keep-hostname(yes); }};
source s_local {{ unix-dgram("{folder}/log"); }};
destination d_plain {{ network("127.0.0.1" port({TCP})); }};
rewrite r_token {{
  set("{PUBLIC}" value(".SDATA.tidegate@32473.token"));
  set("{SECURE}" value(".SDATA.tidegate@32473.source"));
}};
destination d_secure {{
  syslog("127.0.0.1" port({TLS}) transport("tls")
    tls(ca-file("{folder}/ca.pem") cert-file("{folder}/client.pem") key-file("{folder}/client.key")));
}};
destination d_bulk {{
  elasticsearch-http(url("http://127.0.0.1:{HTTP}/_bulk") index("{BULK}") type("") user("any") password("{PUBLIC}") persist-name("bulk")
    time-reopen(1) batch-lines(50) batch-timeout(200)
    template('$(format-json message=$MSG @timestamp=$ISODATE app_name=$PROGRAM proc_id=$PID level=$LEVEL facility=int64($FACILITY_NUM))'));
}};
log {{ source(s_local); destination(d_plain); }};
log {{ source(s_local); destination(d_bulk); }};
log {{ source(s_local); rewrite(r_token); destination(d_secure); }};
"""


def daemon():
    """The command of a daemon that reads the socket `log`."""
    configuration = folder / "sender.conf"
    configuration.write_text(RSYSLOG if sender == "rsyslog" else SYSLOG_NG)
    if sender == "rsyslog":
        return ["rsyslogd", "-n", "-f", str(configuration), "-i", str(folder / "sender.pid")]
    paths = [f"--{name}={folder}/sender.{end}" for name, end in [("persist-file", "persist"), ("pidfile", "pid"), ("control", "ctl")]]
    return ["syslog-ng", "-F", "--no-caps", "-f", str(configuration), *paths]


def through_daemon():
    service = start()
    log = open(folder / "sender.log", "w")
    running = subprocess.Popen(daemon(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    until("the socket is there", lambda: (folder / "log").exists())
    local = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    local.connect(str(folder / "log"))
    try:
        for number in range(COUNT):
            local.send(f"<14>{time.strftime('%b %e %H:%M:%S')} shop[71]: message {number:04}".encode())
            time.sleep(0.001)
            if number == COUNT // 3:
                stop(service)
            if number == 2 * COUNT // 3:
                service = start()
        for source in [PLAIN, SECURE] + [BULK] * (sender == "syslog-ng"):
            until(f"all messages are in {source}", lambda: len({row["event_message"] for row in rows(source)}) >= COUNT, 30)
            # The fields of a document are those of the event; syslog's are in its metadata.
            prefix = "" if source == BULK else "m."
            found = rows(source, ", ".join(["event_message", *(prefix + field for field in ["app_name", "proc_id", "level", "facility"])]))
            texts = [row["event_message"].strip() for row in found]
            assert sorted(set(texts)) == [f"message {number:04}" for number in range(COUNT)], (source, len(found))
            # A daemon may send messages again when the connection breaks: none is lost, some may be there twice.
            print(f"{sender}: {len(texts) - len(set(texts))} of {COUNT} are twice in {source}")
            assert len(texts) < COUNT + COUNT // 10, (source, len(texts))
            assert all((row["app_name"], row["proc_id"], row["level"], row["facility"]) == ("shop", "71", "info", 1) for row in found), found[0]
    finally:
        running.terminate()
        running.wait(30)
        stop(service)


def through_logger():
    service = start()
    run = lambda *arguments: subprocess.run(
        ["logger", "--tcp", "--server", "127.0.0.1", "--port", str(TCP), "--tag", "shop", "--priority", "user.info", *arguments], check=True)
    for number, arguments in enumerate([["--rfc3164"], ["--rfc5424"], ["--rfc5424", "--octet-count"], ["--rfc5424=notime"], ["--rfc3164", "--octet-count"]]):
        run(*arguments, f"message {number}")
    until("all messages are there", lambda: len(rows(PLAIN)) == 5)
    found = rows(PLAIN, "event_message, m.app_name, m.level, m.hostname")
    assert [row["event_message"] for row in found] == [f"message {number}" for number in range(5)], found
    assert all((row["app_name"], row["level"]) == ("shop", "info") for row in found), found
    assert all(row["hostname"] for row in found), found
    stop(service)


folder.mkdir(parents=True, exist_ok=True)
certificates()
through_logger() if sender == "logger" else through_daemon()
print(f"{sender}: everything is there")
