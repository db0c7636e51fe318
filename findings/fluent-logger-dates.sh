#!/usr/bin/env bash
# fluent-logger 3.4.1 (npm) sends each date of a record as an empty map.
#
# Expected: a value of the record is sent as it is, or an error says that it cannot be, as with a BigInt. JSON, which other loggers of
# JavaScript send, has dates and URLs as texts, and asks an object for its toJSON(). Fluentd's forward protocol has texts as well.
# Observed: { when: new Date(...) } arrives as { "when": {} }, and so do a URL, a Set and a Map. toJSON() is not asked for; it
# arrives as a field that is null. No error is raised.
#
# Why it matters: deadlines and times of orders in events are empty in the store, which takes {} for a record without fields. With a
# transport to the console or a file beside it, whose lines are JSON, the dates are there, so that nobody suspects the logger.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts fluent-logger@3.4.1 @msgpack/msgpack@3.1.2
cat > run.cjs <<'JS'
const fluent = require('fluent-logger'), { decode } = require('@msgpack/msgpack');
console.log('fluent-logger', require('fluent-logger/package.json').version);
const sent = [
  { when: new Date(1704067200123) },
  { from: new URL('http://192.0.2.1/a') },
  { price: { cents: 5, toJSON() { return '0.05'; } } },
  { plain: { text: 'a', number: 1.5, list: [1, null, true] } },
];
let i = 0;
const server = require('net').createServer((socket) => socket.on('data', (data) => {
  const [tag, time, record] = decode(data);
  console.log('JSON', JSON.stringify(sent[i]), 'Fluentd gets', tag, time, JSON.stringify(record));
  if (++i === sent.length) process.exit();
  sender.emit('a', sent[i], new Date(1704067200123));
}));
let sender;
server.listen(0, '127.0.0.1', () => {
  sender = fluent.createFluentSender('app', { host: '127.0.0.1', port: server.address().port });
  sender.emit('a', sent[i], new Date(1704067200123));
});
JS
node run.cjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
fluent-logger 3.4.1
JSON {"when":"2024-01-01T00:00:00.123Z"} Fluentd gets app.a 1704067200 {"when":{}}
JSON {"from":"http://192.0.2.1/a"} Fluentd gets app.a 1704067200 {"from":{}}
JSON {"price":"0.05"} Fluentd gets app.a 1704067200 {"price":{"cents":5,"toJSON":null}}
JSON {"plain":{"text":"a","number":1.5,"list":[1,null,true]}} Fluentd gets app.a 1704067200 {"plain":{"text":"a","number":1.5,"list":[1,null,true]}}
END
