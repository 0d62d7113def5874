"""Python's standard library alone. usage: python3 stdlib.py [URL]"""
import json
import os
import sys
import urllib.error
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ATTENTIOND_URL", "http://127.0.0.1:8080")


def attention(**fields):
    request = urllib.request.Request(URL + "/attention", json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


# The worked example: two queries, two keys and two values of three columns.
reply = attention(q=[[2, 0, 1], [0, 2, 1]], k=[[1, 1, 0], [0, 1, 1]], v=[[1, 0, 1], [0, 1, 0]])
for row in reply["output"]:
    print(*(f"{number:.6f}" for number in row))

# The query has two columns, but the key has three.
try:
    attention(q=[[2, 0]], k=[[1, 1, 0]], v=[[1, 0, 1]])
except urllib.error.HTTPError as error:
    problem = json.load(error)
    print(f"{problem['status']} {problem['code']} at {problem['pointer']}: {problem['detail']}")
