#!/usr/bin/env bash
# @opentelemetry/resources 3.1.1 (npm) ignores all of OTEL_RESOURCE_ATTRIBUTES, service.name included, if one value has more than 255
# characters; OpenTelemetry for Python 1.45.2 takes all of them.
#
# Expected, by OpenTelemetry's specification of the resource SDK and of attribute limits: the variable is a list of key=value; it is discarded as a
# whole on errors such as a failed decoding. The length of a resource's attribute has no limit.
# Observed: with a value of 255 characters both languages have the three attributes; with 256 JavaScript has none of them. An "=" in
# a value, which has to be written as %3D, does the same in JavaScript and nothing in Python. The message is one of level debug, so that by default nothing is
# shown even to who has set a logger for the SDK's errors.
#
# Why it matters: deployments put command lines, image digests and annotations there. A service that writes to the same
# collector as its neighbour comes as "unknown_service" from the day a label grew, and all saved queries by service.name miss it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @opentelemetry/resources@3.1.1 @opentelemetry/api@1.10.0
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install opentelemetry-sdk==1.45.2
cat > run.cjs <<'JS'
const { diag, DiagConsoleLogger, DiagLogLevel } = require('@opentelemetry/api');
const { defaultResource, detectResources, envDetector } = require('@opentelemetry/resources');
diag.setLogger(new DiagConsoleLogger(), DiagLogLevel.WARN);
const { attributes } = defaultResource().merge(detectResources({ detectors: [envDetector] }));
console.log('  JavaScript', JSON.stringify([attributes['service.name'], attributes['team'], attributes['note']?.length ?? null]).replace(/unknown_service[^"]*/, 'unknown_service'));
JS
cat > run.py <<'PY'
import json
from opentelemetry.sdk.resources import Resource
attributes = Resource.create().attributes
print("  Python    ", json.dumps([attributes["service.name"], attributes.get("team"), len(attributes["note"])], separators=(",", ":")))
PY
{
  for note in "$(printf 'x%.0s' $(seq 255))" "$(printf 'x%.0s' $(seq 256))" 'a=b'; do
    export OTEL_RESOURCE_ATTRIBUTES="service.name=checkout,team=core,note=$note"
    echo "a value of ${#note} characters: service.name, team, the length of the value"
    node run.cjs
    v/bin/python run.py
  done
} 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
a value of 255 characters: service.name, team, the length of the value
  JavaScript ["checkout","core",255]
  Python     ["checkout","core",255]
a value of 256 characters: service.name, team, the length of the value
  JavaScript ["unknown_service",null,null]
  Python     ["checkout","core",256]
a value of 3 characters: service.name, team, the length of the value
  JavaScript ["unknown_service",null,null]
  Python     ["checkout","core",3]
END
