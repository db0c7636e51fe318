#!/usr/bin/env bash
# syslog-pro 1.0.0 (npm) writes the hour of all messages on a clock of twelve hours, without saying which half of the day it is.
#
# Expected, by RFC 5424 section 6.2.3 and RFC 3164 section 4.1.2: hours are 00 to 23. With the option utf8BOM, which is on by default, RFC 5424's
# BOM is meant: the bytes EF BB BF before the text.
# Observed: 15:04:05 is written as 03:04:05 and 00:30:00 as 12:30:00, in both formats, in UTC and in local time. In
# RFC 5424 the text begins with the three letters "BOM" by default. No error is raised.
#
# Why it matters: all that is logged from one in the afternoon to midnight, and from midnight to one, has a time that is wrong by twelve hours. A search
# for "last night" finds the morning's messages instead, and alerts on age fire or stay silent.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts syslog-pro@1.0.0 glossy@0.1.7
cat > run.cjs <<'JS'
// The clock is set for this.
const RealDate = Date;
let at = 0;
globalThis.Date = class extends RealDate { constructor(...a) { a.length ? super(...a) : super(at); } static now() { return at; } };
const { RFC3164, RFC5424 } = require('syslog-pro'), { Parse } = require('glossy');
console.log('syslog-pro', require('syslog-pro/package.json').version);
(async () => {
  for (const time of ['09:00:00', '15:04:05', '00:30:00']) {
    at = RealDate.parse(`2024-01-01T${time}Z`);
    const modern = await new RFC5424({ hostname: 'h', applacationName: 'a' }).buildMessage('text', { severity: 3 });
    const utc = await new RFC5424({ hostname: 'h', applacationName: 'a', timestampUTC: true, utf8BOM: false }).buildMessage('text', { severity: 3 });
    const old = await new RFC3164({ hostname: 'h', applacationName: 'a' }).buildMessage('text', { severity: 3 });
    console.log(`at ${time}:`, JSON.stringify([modern, utc, old]));
    console.log(`at ${time}: read as`, Parse.parse(modern.trim()).time.toISOString());
  }
})();
JS
TZ=UTC node run.cjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
syslog-pro 1.0.0
at 09:00:00: ["<187>1 2024-01-01T09:00:00+00:00 h a - - - BOMtext\n","<187>1 2024-01-01T09:00:00+00:00 h a - - - text\n","<187>Jan  1 09:00:00 h a text\n"]
at 09:00:00: read as 2024-01-01T09:00:00.000Z
at 15:04:05: ["<187>1 2024-01-01T03:04:05+00:00 h a - - - BOMtext\n","<187>1 2024-01-01T03:04:05+00:00 h a - - - text\n","<187>Jan  1 03:04:05 h a text\n"]
at 15:04:05: read as 2024-01-01T03:04:05.000Z
at 00:30:00: ["<187>1 2024-01-01T12:30:00+00:00 h a - - - BOMtext\n","<187>1 2024-01-01T12:30:00+00:00 h a - - - text\n","<187>Jan  1 12:30:00 h a text\n"]
at 00:30:00: read as 2024-01-01T12:30:00.000Z
END
