#!/usr/bin/env bash
# pino-loki 3.0.0 sends the time "NaN" to Loki for each line of a pino logger that writes ISO times.
#
# Expected: pino documents timestamp: pino.stdTimeFunctions.isoTime as one of its ready formats. pino-loki takes the time of a line, or where there is
# none, that of the moment; and Loki's push API wants nanoseconds since 1970 as digits.
# Observed: epoch milliseconds and epoch seconds are told apart and right, a line without a time has the present one, but an
# ISO text is multiplied as if it were a number: the timestamp is "NaN". Nothing is said of it.
#
# Why it matters: the time of a line is lost on its way, and what takes the push has to refuse the line or to give it another time, though
# the log looks right on the screen. ISO times are usual, since people read them.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts pino@10.4.0 pino-loki@3.0.0
cat > run.cjs <<'JS'
const pino = require('pino'), { pinoLoki } = require('pino-loki'), { isoTime, epochTime, unixTime } = pino.stdTimeFunctions;
const came = [];
const server = require('http').createServer((request, response) => {
  let body = '';
  request.on('data', (part) => (body += part));
  request.on('end', () => {
    for (const stream of JSON.parse(body).streams) for (const [time, line] of stream.values) came.push([JSON.parse(line).msg, time]);
    response.writeHead(204).end();
  });
});
server.listen(0, '127.0.0.1', async () => {
  const host = `http://127.0.0.1:${server.address().port}`;
  for (const [name, timestamp] of Object.entries({ epochTime, unixTime, none: false, isoTime }))
    pino({ timestamp }, pinoLoki({ host, batching: false })).info(name);
  for (let i = 0; i < 200 && came.length < 4; i++) await new Promise((done) => setTimeout(done, 50));
  for (const [name, time] of came.sort()) console.log(name, /^1[0-9]{18}$/.test(time) ? 'nanoseconds' : time);
  process.exit(0);
});
JS
node run.cjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
epochTime nanoseconds
isoTime NaN
none nanoseconds
unixTime nanoseconds
END
