#!/usr/bin/env bash
# winston-log2gelf 2.4.1 (npm) sends every error as an emergency, and information as critical.
#
# Expected, by GELF 1.1: "level" is the number of a standard syslog level (RFC 5424 section 6.2.1): error 3, warning 4, informational 6,
# debug 7. gelf-pro 1.4.0 sends these.
# Observed: the numbers are winston's own, which count from 0 in the order of its list: error 0 (emergency), warn 1
# (alert), info 2 (critical), verbose 3 (error). http, and all levels of winston.config.syslog but info and debug, are 0 as well, notice included.
#
# Why it matters: Graylog's searches and alerts go by these numbers. "level:<=2" finds everything, "level:3", where the errors
# ought to be, finds verbose talk, and among the systems of a company just this one is always in a state of emergency.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts winston-log2gelf@2.4.1 gelf-pro@1.4.0 winston@3.19.0
cat > run.cjs <<'JS'
const winston = require('winston'), Log2gelf = require('winston-log2gelf'), gelf = require('gelf-pro');
const collector = (done) => {
  const server = require('net').createServer((socket) => {
    let text = '';
    socket.on('data', (data) => { text += data; });
    socket.on('close', () => done(text.split('\0').filter(Boolean).map((message) => JSON.parse(message)).map((m) => `${m.short_message} ${m.level}`)));
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
};
(async () => {
  console.log('winston-log2gelf', require('winston-log2gelf/package.json').version);
  for (const [name, levels] of Object.entries({ npm: winston.config.npm.levels, syslog: winston.config.syslog.levels })) {
    await new Promise(async (resolve) => {
      const server = await collector((lines) => { console.log(`winston-log2gelf, levels of ${name}:`, lines.join(', ')); server.close(resolve); });
      const level = Object.keys(levels).at(-1);
      const transport = new Log2gelf({ hostname: 'h', host: '127.0.0.1', port: server.address().port, level });
      const logger = winston.createLogger({ levels, level, transports: [transport] });
      for (const name of Object.keys(levels)) logger[name](name);
      setTimeout(() => transport.end(), 300);
    });
  }
  const sent = [];
  gelf.setConfig({ broadcast: [(message) => sent.push(`${message.short_message} ${message.level}`)], adapterOptions: { port: 9 } });
  for (const name of ['emergency', 'error', 'warn', 'info', 'debug']) gelf[name](name);
  console.log('gelf-pro:', sent.join(', '));
})();
JS
node run.cjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
winston-log2gelf 2.4.1
winston-log2gelf, levels of npm: error 0, warn 1, info 2, http 0, verbose 3, debug 4, silly 5
winston-log2gelf, levels of syslog: emerg 0, alert 0, crit 0, error 0, warning 0, notice 0, info 2, debug 4
gelf-pro: emergency 0, error 3, warn 4, info 6, debug 7
END
