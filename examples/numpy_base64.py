"""NumPy arrays as base64 in JSON: exact and half as long as decimals. usage: python3 numpy_base64.py [URL]"""
import base64
import json
import os
import sys
import urllib.error
import urllib.request

import numpy as np

URL = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ATTENTIOND_URL", "http://127.0.0.1:8080")


def pack(array):
    array = np.asarray(array, "<f4")
    return {"shape": array.shape, "dtype": "F32", "base64": base64.b64encode(array.tobytes()).decode()}


def unpack(tensor):
    return np.frombuffer(base64.b64decode(tensor["base64"]), "<f4").reshape(tensor["shape"])


def attention(q, k, v, **options):
    body = json.dumps({"q": pack(q), "k": pack(k), "v": pack(v), "format": "base64", **options}).encode()
    request = urllib.request.Request(URL + "/attention", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return {name: unpack(tensor) for name, tensor in json.load(reply).items()}


# The worked example: two queries, two keys and two values of three columns.
for row in attention([[2, 0, 1], [0, 2, 1]], [[1, 1, 0], [0, 1, 1]], [[1, 0, 1], [0, 1, 0]])["output"]:
    print(*(f"{number:.6f}" for number in row))

try:  # the query has two columns, but the key has three
    attention([[2, 0]], [[1, 1, 0]], [[1, 0, 1]])
except urllib.error.HTTPError as error:
    problem = json.load(error)
    print(f"{problem['status']} {problem['code']} at {problem['pointer']}: {problem['detail']}")
