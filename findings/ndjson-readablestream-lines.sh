#!/usr/bin/env bash
# ndjson-readablestream 1.4.0 (npm) splits a number into two where a chunk of the stream ends, and gives nothing more behind a line that was cut.
#
# Expected: a record ends at its line break, wherever the network cuts the stream; a line that is not JSON is an error or is left out. ndjson 2.0.0 and
# jsonlines 0.1.1 give the same records for all cuts, and an error for a cut line.
# Observed:
# - of the lines 1704067200 and 200 in chunks of which the first is "17040" the records are 17040, 67200 and 200: what has come of a line is
#   taken for a record if it is JSON. With "1704" as the first chunk there is one record, 1704.
# - a line that is cut, {"id":2,"ms, is kept and put in front of the next one, and so on to the end: of four lines only the first is given. No error is raised.
#
# Why it matters: it reads answers of services in a browser. One writer that was stopped in the middle of a line is enough that the rest of the
# day's log is missing, and the page looks as if there had been no more; how numbers read depends on the network.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts ndjson-readablestream@1.4.0 ndjson@2.0.0 jsonlines@0.1.1
cat > run.mjs <<'JS'
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
const require = createRequire(import.meta.url);
const read = require('ndjson-readablestream'), ndjson = require('ndjson'), jsonlines = require('jsonlines');
console.log('ndjson-readablestream', require('ndjson-readablestream/package.json').version);
const bytes = (chunks) => chunks.map((chunk) => new TextEncoder().encode(chunk));
const readers = {
  'ndjson-readablestream': (chunks) => read(new ReadableStream({
    start(controller) {
      for (const chunk of bytes(chunks)) controller.enqueue(chunk);
      controller.close();
    },
  })),
  ndjson: (chunks) => Readable.from(bytes(chunks).map(Buffer.from), { objectMode: false }).pipe(ndjson.parse()),
  jsonlines: (chunks) => Readable.from(bytes(chunks).map(Buffer.from), { objectMode: false }).pipe(jsonlines.parse()),
};
for (const chunks of [
  ['1704067200\n200\n'],
  ['17040', '67200\n200\n'],
  ['1704', '067200\n200\n'],
  ['{"id":1}\n{"id', '":2}\n'],
  ['{"id":1}\n{"id":2,"ms\n{"id":3}\n{"id":4}\n'],
]) {
  console.log(JSON.stringify(chunks));
  for (const [name, reader] of Object.entries(readers)) {
    const records = [];
    try {
      for await (const record of reader(chunks)) records.push(record);
    } catch (error) {
      records.push(error.constructor.name);
    }
    console.log(' ', name, JSON.stringify(records));
  }
}
JS
node run.mjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
ndjson-readablestream 1.4.0
["1704067200\n200\n"]
  ndjson-readablestream [1704067200,200]
  ndjson [1704067200,200]
  jsonlines [1704067200,200]
["17040","67200\n200\n"]
  ndjson-readablestream [17040,67200,200]
  ndjson [1704067200,200]
  jsonlines [1704067200,200]
["1704","067200\n200\n"]
  ndjson-readablestream [1704]
  ndjson [1704067200,200]
  jsonlines [1704067200,200]
["{\"id\":1}\n{\"id","\":2}\n"]
  ndjson-readablestream [{"id":1},{"id":2}]
  ndjson [{"id":1},{"id":2}]
  jsonlines [{"id":1},{"id":2}]
["{\"id\":1}\n{\"id\":2,\"ms\n{\"id\":3}\n{\"id\":4}\n"]
  ndjson-readablestream [{"id":1}]
  ndjson ["Error"]
  jsonlines ["SyntaxError"]
END
