#!/usr/bin/env bash
# journalctl 252 (Debian 12) does not find entries by --since and --until in a file of systemd-journal-remote where the time
# goes back once.
#
# Expected, by journalctl(1): --since shows entries on or newer than the date, --until on or older.
# Observed: five entries, whose clock is set back by an hour after the second and set right before the last. --since shows one of
# the three that are newer; --until and a range show "No entries" where there are two. Without conditions all five are shown, and
# journalctl --verify passes. The file is searched by halving, which needs rising times.
#
# Why it matters: a collector's file has the entries of a machine whose clock was corrected. An
# investigation of "what happened between nine and ten" is answered with nothing, and no sign that there is something.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
journalctl --version | grep -q '^systemd 252 ' || { echo "this finding is about systemd 252 of Debian 12; journalctl says: $(journalctl --version | head -n 1)"; exit 1; }
want=$(dpkg-query -W -f '${Version}' systemd)
mkdir debs
(cd debs && apt-get -qq download "systemd-journal-remote=$want" libmicrohttpd12 2>/dev/null) || { echo "apt-get has no systemd-journal-remote $want (apt-get update?)"; exit 1; }
for deb in debs/*.deb; do dpkg -x "$deb" root; done
monotonic=0
entry() {
  monotonic=$((monotonic + 1))
  printf '__REALTIME_TIMESTAMP=%d000000\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%032d\nMESSAGE=%s\n\n' "$(date -u -d "2023-11-14 $1" +%s)" $monotonic 1 "$2"
}
{
  entry 22:13:20 first
  entry 22:13:30 second
  entry 21:13:40 'third, the clock was set back'
  entry 21:13:50 fourth
  entry 22:14:00 'fifth, the clock is right again'
} > entries
LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu root/lib/systemd/systemd-journal-remote -o "$dir/x.journal" entries 2> log || { cat log; exit 1; }
show() {
  echo "journalctl $*"
  journalctl --file x.journal --utc -o short-iso "$@" 2>&1 | sed 's/unknown: //'
}
{
  show
  show --since '2023-11-14 22:00:00'
  show --until '2023-11-14 22:00:00'
  show --since '2023-11-14 21:00:00' --until '2023-11-14 22:00:00'
  journalctl --verify --file x.journal 2>&1 | grep -o '^PASS'
} | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
journalctl 
2023-11-14T22:13:20+0000 first
2023-11-14T22:13:30+0000 second
2023-11-14T21:13:40+0000 third, the clock was set back
2023-11-14T21:13:50+0000 fourth
2023-11-14T22:14:00+0000 fifth, the clock is right again
journalctl --since 2023-11-14 22:00:00
2023-11-14T22:14:00+0000 fifth, the clock is right again
journalctl --until 2023-11-14 22:00:00
-- No entries --
journalctl --since 2023-11-14 21:00:00 --until 2023-11-14 22:00:00
-- No entries --
PASS
END
