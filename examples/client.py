"""The Python client of this project (pip install clients/python). usage: python3 client.py [URL]"""
import os
import sys

import numpy as np
from attentiond import Client, ServiceError

client = Client(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ATTENTIOND_URL", "http://127.0.0.1:8080"))

# The worked example: two queries, two keys and two values of three columns.
q, k, v = np.float32([[2, 0, 1], [0, 2, 1]]), np.float32([[1, 1, 0], [0, 1, 1]]), np.float32([[1, 0, 1], [0, 1, 0]])
for row in client.scaled_dot_product_attention(q, k, v):
    print(*(f"{number:.6f}" for number in row))

# The query has two columns, but the key has three.
try:
    client.attention(q[:1, :2], k[:1], v[:1])
except ServiceError as error:
    print(f"{error.status} {error.code} at {error.pointer}: {error.detail}")
