#!/usr/bin/env python3
"""What a person writes to learn whom an exact sliding log would have denied.

    replay_baseline.py LOG LIMIT SECONDS

Reads an access log in the common or combined format with one regular expression, sorts it by
time, keeps a deque of admitted times per host, and prints one JSON object. The rival of
`sluicegate replay --policy "sliding_log LIMIT/SECONDSs"`, whose counts must be the same.
"""

import collections
import datetime
import json
import re
import sys

LINE = re.compile(rb'(\S+) \S+ \S+ \[([^\]]+)\] "')


def main():
    path, limit, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    requests = []
    malformed = 0
    with open(path, "rb") as log:
        for line in log:
            match = LINE.match(line)
            if match is None:
                malformed += 1
                continue
            host, stamp = match.groups()
            time = datetime.datetime.strptime(stamp.decode(), "%d/%b/%Y:%H:%M:%S %z")
            requests.append((time.timestamp(), host))
    requests.sort(key=lambda request: request[0])

    admitted = collections.defaultdict(collections.deque)
    denied = collections.Counter()
    for time, host in requests:
        times = admitted[host]
        while times and times[0] <= time - seconds:
            times.popleft()
        if len(times) < limit:
            times.append(time)
        else:
            denied[host] += 1

    print(
        json.dumps(
            {
                "malformed": malformed,
                "requests": len(requests),
                "denied": denied.total(),
                "keys": len(admitted),
                "keys_denied": len(denied),
            }
        )
    )


if __name__ == "__main__":
    main()
