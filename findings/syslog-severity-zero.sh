#!/usr/bin/env bash
# Two syslog clients of npm make emergencies ordinary: pino-syslog 4.0.0 sends a level that is declared as emergency as an
# error, syslog-client 1.1.1 sends a client's emergencies as information.
#
# Expected: emergency is severity 0 of RFC 5424, and the facility of the kernel is 0. Both modules have emergency in their tables.
# Observed: pino-syslog's customLevels with syslogSeverity "emergency" give severity 3, as if the name were unknown; "alert" gives 1.
# createClient of syslog-client with severity Emergency and facility Kernel gives severity 6 and facility 16. Zero is taken for "not given".
# pino-syslog writes <NaN> for a level that is not declared, and leaves out milliseconds: 00:00:00.999 is 00:00:00. No error is raised.
#
# Why it matters: receivers page someone for severity 0 and sort by time. These messages arrive as errors, as information, or,
# with <NaN>, as lines that are no syslog, and the order within a second is gone.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts pino-syslog@4.0.0 syslog-client@1.1.1
cat > options.json <<'J'
{
  "newline": true, "messageOnly": true,
  "customLevels": { "panic": { "level": 70, "syslogSeverity": "emergency" }, "page": { "level": 65, "syslogSeverity": "alert" } }
}
J
cat > lines <<'J'
{"level":70,"time":1704067200999,"pid":1,"hostname":"h","msg":"emergency"}
{"level":65,"time":1704067200001,"pid":1,"hostname":"h","msg":"alert"}
{"level":35,"time":1704067200001,"pid":1,"hostname":"h","msg":"another level"}
J
cat > run.cjs <<'JS'
const dgram = require('dgram'), syslog = require('syslog-client');
console.log('pino-syslog', require('pino-syslog/package.json').version, 'syslog-client', require('syslog-client/package.json').version);
const server = dgram.createSocket('udp4');
let came;
server.on('message', (message) => {
  const [, priority, text] = message.toString().match(/^<(\d+)>.* (\w+)\n/);
  console.log(`syslog-client: <${priority}> facility ${priority >> 3} severity ${priority & 7} ${text}`);
  came();
});
server.bind(0, '127.0.0.1', () => {
  const { Facility, Severity } = syslog, options = { port: server.address().port, syslogHostname: 'h', rfc3164: false, appName: 'a' };
  const send = (more, text) => new Promise((done) => {
    came = done;
    syslog.createClient('127.0.0.1', { ...options, ...more }).log(text);
  });
  (async () => {
    await send({ severity: Severity.Emergency, facility: Facility.Kernel }, 'emergency');
    await send({ severity: Severity.Alert, facility: Facility.User }, 'alert');
    process.exit();
  })();
});
JS
{ node --no-deprecation run.cjs; node_modules/.bin/pino-syslog -c options.json < lines; } 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
pino-syslog 4.0.0 syslog-client 1.1.1
syslog-client: <134> facility 16 severity 6 emergency
syslog-client: <9> facility 1 severity 1 alert
<131>1 2024-01-01T00:00:00Z h - 1 - - emergency
<129>1 2024-01-01T00:00:00Z h - 1 - - alert
<NaN>1 2024-01-01T00:00:00Z h - 1 - - another level
END
