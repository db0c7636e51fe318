#!/usr/bin/env bash
# syslog-parse 2.0.0 (npm) reads last month's messages as this month's on the last day of a month, and lines of a log file as emergencies of
# the kernel.
#
# Expected: "Feb 10" is the tenth of February, whatever day it is when the line is read. A line of a file has no <PRI>, and its reader takes it
# as optional; what is not there is unknown, or user.notice as in RFC 3164 section 4.3.3. glossy 0.1.7 reads the month as it stands.
# Observed: with the clock at March 31, "Feb 10" is March 10; with the clock at March 15 it is February 10. So are lines of April on
# May 31. (The month is set while the day is still today's, and February 31 is in March.) Without <PRI> the priority is 0,
# facility kern, severity emerg. No error is raised.
#
# Why it matters: just when a month is closed and its files are read, events are dated a month late, and the tests that ran on another
# day were right. A dashboard of severities over /var/log shows nothing but emergencies.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts syslog-parse@2.0.0 glossy@0.1.7
cat > run.mjs <<'JS'
import { createRequire } from 'node:module';
import parse from 'syslog-parse';
const require = createRequire(import.meta.url), glossy = require('glossy').Parse;
// The clock is set for this.
const RealDate = Date;
let at;
globalThis.Date = class extends RealDate { constructor(...a) { a.length ? super(...a) : super(at); } static now() { return at; } };
for (const [clock, line] of [
  ['2024-03-15', '<86>Feb 10 08:00:00 h sshd[42]: text'],
  ['2024-03-31', '<86>Feb 10 08:00:00 h sshd[42]: text'],
  ['2024-05-31', '<86>Apr 30 08:00:00 h sshd[42]: text'],
  ['2024-03-15', 'Feb 10 08:00:00 h sshd[42]: text'],
]) {
  at = RealDate.parse(`${clock}T10:00:00Z`);
  const { time, facility, severity } = parse(line);
  console.log(clock, line, '=>', time.toISOString(), facility, severity);
  if (line.startsWith('<')) console.log('  glossy', glossy.parse(line).time.toISOString());
}
JS
TZ=UTC node run.mjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
2024-03-15 <86>Feb 10 08:00:00 h sshd[42]: text => 2024-02-10T08:00:00.000Z authpriv info
  glossy 2024-02-10T08:00:00.000Z
2024-03-31 <86>Feb 10 08:00:00 h sshd[42]: text => 2024-03-10T08:00:00.000Z authpriv info
  glossy 2024-02-10T08:00:00.000Z
2024-05-31 <86>Apr 30 08:00:00 h sshd[42]: text => 2024-05-30T08:00:00.000Z authpriv info
  glossy 2024-04-30T08:00:00.000Z
2024-03-15 Feb 10 08:00:00 h sshd[42]: text => 2024-02-10T08:00:00.000Z kern emerg
END
