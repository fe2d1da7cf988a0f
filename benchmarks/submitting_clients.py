"""Clients that submit at once, in a process of their own: started by `benchmarks.submissions`."""

import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit

import numpy as np


def main() -> None:
    """URL, key, clients, submissions of each; the body comes by standard input."""
    url, key, clients, each = sys.argv[1:]
    body = sys.stdin.read()
    waits: list[float] = []
    statuses: list[int] = []
    address = urlsplit(url).netloc
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def submit() -> None:
        connection = http.client.HTTPConnection(address, timeout=120)
        for _ in range(int(each)):
            began = time.monotonic()
            connection.request("POST", "/v1/experiments", body, headers)
            answer = connection.getresponse()
            answer.read()
            waits.append(time.monotonic() - began)
            statuses.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=submit) for _ in range(int(clients))]
    began = time.monotonic()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    seconds = time.monotonic() - began
    found = {
        "sent": int(clients) * int(each),
        "accepted": statuses.count(202),
        "seconds": round(seconds, 2),
        "a_second": round(len(statuses) / seconds, 1),
        **{f"p{one}_ms": round(1000 * float(np.percentile(waits, one)), 1) for one in (50, 99)},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
