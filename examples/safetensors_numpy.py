"""safetensors in and out: the shortest way for large tensors (pip install safetensors numpy).
usage: python3 safetensors_numpy.py [URL]"""
import json
import os
import sys
import urllib.error
import urllib.request

import numpy as np
from safetensors.numpy import load, save

URL = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ATTENTIOND_URL", "http://127.0.0.1:8080")


def attention(options="", **tensors):
    body = save({name: np.array(rows, np.float32) for name, rows in tensors.items()})
    request = urllib.request.Request(URL + "/attention?" + options, body, {
        "Content-Type": "application/vnd.safetensors", "Accept": "application/vnd.safetensors"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return load(reply.read())


# The worked example: two queries, two keys and two values of three columns.
reply = attention("return=output,lse", q=[[2, 0, 1], [0, 2, 1]], k=[[1, 1, 0], [0, 1, 1]],
                  v=[[1, 0, 1], [0, 1, 0]])
for row in reply["output"]:
    print(*(f"{number:.6f}" for number in row))

try:  # the query has two columns, but the key has three
    attention(q=[[2, 0]], k=[[1, 1, 0]], v=[[1, 0, 1]])
except urllib.error.HTTPError as error:
    problem = json.load(error)
    print(f"{problem['status']} {problem['code']} at {problem['pointer']}: {problem['detail']}")
