#!/usr/bin/env bash
# winston-loki 6.1.7 (npm): in Protobuf, which is the default, labels are not escaped and structured metadata is missing. With
# json: true both are right.
#
# Expected: the two ways of Loki's push API say the same. In Protobuf the labels are a text, {name="value"}, whose values are written
# as in a query, so that a backslash is \\; the metadata of an entry is its field structuredMetadata.
# Observed: the label C:\new is sent as path="C:\new", in which \n is a line break; a reader of label sets gives
# "C:" and "ew" on two lines. Quotes are not escaped either, and without a label of its own a stream has job="undefined". The fields of the
# record, which are metadata in JSON, are sent nowhere if the transport has a format of its own. No error is raised.
#
# Why it matters: a path of Windows becomes another stream under a name that nobody searches for, and trace ids in the metadata,
# by which logs are joined with traces, are missing until someone sets json: true.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts winston-loki@6.1.7 winston@3.19.0
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install prometheus-client==0.26.0
cat > run.cjs <<'JS'
const winston = require('winston'), LokiTransport = require('winston-loki'), snappy = require('snappy');
const { logproto } = require('winston-loki/src/proto');
console.log('winston-loki', require('winston-loki/package.json').version);
let came;
const collector = require('http').createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    response.writeHead(204).end();
    const body = Buffer.concat(parts), json = request.headers['content-type'] === 'application/json';
    const push = json ? JSON.parse(body) : logproto.PushRequest.decode(snappy.uncompressSync(body));
    for (const { stream, labels, values, entries } of push.streams) {
      console.log(json ? 'json    ' : 'protobuf', 'labels', json ? JSON.stringify(stream) : labels);
      const entry = json ? { line: values[0][1], structuredMetadata: values[0][2] } : entries[0].toJSON();
      console.log(json ? 'json    ' : 'protobuf', 'line', entry.line, 'metadata', JSON.stringify(entry.structuredMetadata));
      if (!json) require('fs').writeFileSync('labels', `stream${labels} 1\n`);
    }
    came();
  });
});
collector.listen(0, '127.0.0.1', async () => {
  for (const json of [undefined, true]) {
    const transport = new LokiTransport({
      host: `http://127.0.0.1:${collector.address().port}`, json, batching: false, gracefulShutdown: false, format: winston.format.printf(({ message }) => message),
    });
    const logger = winston.createLogger({ transports: [transport] });
    const pushed = new Promise((resolve) => { came = resolve; });
    logger.info({ message: 'text', labels: { path: 'C:\\new' }, trace_id: '4bf9' });
    await pushed;
  }
  process.exit();
});
JS
cat > run.py <<'PY'
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(open("labels").read()):
    print("protobuf read as", {name: value.split("\n") for name, value in family.samples[0].labels.items()})
PY
{ node run.cjs; v/bin/python run.py; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
winston-loki 6.1.7
protobuf labels {level="info",job="undefined",path="C:\new"}
protobuf line text metadata undefined
json     labels {"level":"info","path":"C:\\new"}
json     line text metadata {"trace_id":"4bf9","level":"info"}
protobuf read as {'level': ['info'], 'job': ['undefined'], 'path': ['C:', 'ew']}
END
