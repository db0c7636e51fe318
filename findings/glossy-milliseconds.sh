#!/usr/bin/env bash
# glossy 0.1.7, which writes the messages of winston-syslog 2.7.1, writes 50 milliseconds as half a second.
#
# Expected, by RFC 5424 section 6.2.3: TIME-SECFRAC is a decimal fraction of a second, so 50 ms are ".050" or ".05".
# Observed: milliseconds are padded to two digits, not three. 1 ms is ".01", 50 ms is ".50", 99 ms is ".99"; from 100 ms on
# the value is right. Every reader takes ".50" for 500 ms, glossy's own parser too.
#
# Why it matters: a tenth of all messages has a time that is wrong by up to 0.9 seconds, and events of one second are sorted in another
# order than that in which they happened: what was logged at 50 ms stands behind what was logged at 400 ms.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts glossy@0.1.7 winston-syslog@2.7.1 winston@3.17.0
cat > run.cjs <<'JS'
const { Produce, Parse } = require('glossy');
console.log('glossy', require('glossy/package.json').version);
for (const ms of [1, 50, 99, 100, 400]) {
  const date = new Date(Date.UTC(2024, 0, 1, 0, 0, 0, ms));
  const line = new Produce().produce({ facility: 'local4', severity: 'error', host: 'h', appName: 'a', date, message: 'm' });
  console.log(`${ms} ms: ${line} read as ${Parse.parse(line).time.getUTCMilliseconds()} ms`);
}
// The same through winston-syslog, whose clock is set for this.
const RealDate = Date, at = Date.UTC(2024, 0, 1, 0, 0, 0, 50);
globalThis.Date = class extends RealDate { constructor(...a) { a.length ? super(...a) : super(at); } static now() { return at; } };
const socket = require('dgram').createSocket('udp4');
socket.on('message', (message) => { console.log('winston-syslog:', message.toString()); process.exit(0); });
socket.bind(0, '127.0.0.1', () => {
  const winston = require('winston');
  require('winston-syslog');
  const port = socket.address().port;
  const transport = new winston.transports.Syslog({ host: '127.0.0.1', port, localhost: 'h', app_name: 'a', type: '5424', pid: 1 });
  winston.createLogger({ levels: winston.config.syslog.levels, transports: [transport] }).error('m');
});
setTimeout(() => { console.log('nothing came'); process.exit(1); }, 10000);
JS
node run.cjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
glossy 0.1.7
1 ms: <163>1 2024-01-01T00:00:00.01Z h a - - - m read as 10 ms
50 ms: <163>1 2024-01-01T00:00:00.50Z h a - - - m read as 500 ms
99 ms: <163>1 2024-01-01T00:00:00.99Z h a - - - m read as 990 ms
100 ms: <163>1 2024-01-01T00:00:00.100Z h a - - - m read as 100 ms
400 ms: <163>1 2024-01-01T00:00:00.400Z h a - - - m read as 400 ms
winston-syslog: <131>1 2024-01-01T00:00:00.50Z h a 1 - - {"level":"error","message":"m"}
END
