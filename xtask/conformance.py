"""Holds a running service against its OpenAPI document: conformance.py BASE TOKEN [ARGUMENT...]

Called by `cargo xtask conformance`. Puts in some logs and an endpoint with every kind of
parameter, so that the document has something to say; validates the document as a stranger and as the owner see it; then
lets schemathesis make requests of it.
"""

import subprocess
import sys
from pathlib import Path

import requests
from openapi_spec_validator import validate

base, token, *arguments = sys.argv[1:]
owner = {"X-API-KEY": token}
kinds = ["text", "int64", "float64", "boolean", "timestamp", "json", "bytes"]


def sent(method, path, body):
    response = requests.request(method, base + path, json=body, headers=owner, timeout=30)
    response.raise_for_status()


sent("POST", "/api/logs?source_name=cloudflare.logs.prod", [
    {"project": "p1", "event_message": "GET /x", "metadata": {"request": {"path": "/x", "headers": {"accept": "*/*"}}}},
    {"project": "p1", "event_message": "GET /y", "metadata": {"request": {"path": "/y"}, "status": 200}},
])
sent("POST", "/api/endpoints", {
    "name": "every kind",
    "description": "A parameter of each kind, and a column of each.",
    "query": "with t as (select id, timestamp, metadata from `cloudflare.logs.prod`) "
             "select id, timestamp, metadata, " + ", ".join(f"@p_{kind} as {kind}" for kind in kinds) + " from t limit 10",
    "parameters": [{"name": f"p_{kind}", "kind": kind} for kind in kinds]
                  + [{"name": "one_of", "enum": ["a", "b"], "default": "a"}],
    "sandboxable": True,
})

documents = {
    who: requests.get(f"{base}/api/openapi", headers=headers, timeout=30).json()
    for who, headers in {"stranger": {}, "owner": owner}.items()
}
for document in documents.values():
    validate(document)
saved = set(documents["owner"]["paths"]) - set(documents["stranger"]["paths"])
assert "/api/endpoints/query/every%20kind" in saved, saved
print(f"the documents are valid; {len(saved)} saved endpoints are described", flush=True)

# Left out: that every request which fits the document is taken, because a text that is no SQL, no pattern or no
# name of an endpoint fits it too; and that `Allow` names what the path of one endpoint describes, because its
# POST is described for all endpoints together.
# One worker: Python's own reader of code fails at times in several threads at once (3.11).
left_out = "positive_data_acceptance,allow_header_conformance"
schemathesis = Path(sys.executable).with_name("schemathesis")
command = [
    schemathesis, "--config-file", str(Path(__file__).with_name("schemathesis.toml")), "run", f"{base}/api/openapi", "--header", f"X-API-KEY: {token}", "--checks", "all",
    "--exclude-checks", left_out, "--max-examples", "10", "--seed", "1", "--request-timeout", "35",
    "--continue-on-failure", *arguments,
]
try:
    sys.exit(subprocess.run(command, timeout=300).returncode)
except subprocess.TimeoutExpired:
    sys.exit("schemathesis did not end within five minutes")
