"""The safetensors package of PyPI writes the requests and reads the replies."""
import json
import unittest
from urllib.parse import urlencode

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from daemon import Daemon

TYPE = "application/vnd.safetensors"
NAMES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
daemon = None
random = np.random.default_rng(7)


def setUpModule():
    global daemon
    daemon = Daemon()


def tearDownModule():
    daemon.stop()


def arrays(dtype=np.float32, shape=(2, 3, 6, 8), n_k=9):
    keys = (*shape[:-2], n_k, shape[-1])
    return {name: random.standard_normal(s).astype(dtype) for name, s in zip("qkv", (shape, keys, keys))}


def load(reply):
    """safetensors.numpy.load knows no BF16."""
    return {name: np.frombuffer(t["data"], NAMES[t["dtype"]]).reshape(t["shape"]) for name, t in safetensors.deserialize(reply)}


def post(path, tensors, metadata=None, accept=None, **query):
    """The reply's arrays, or its document where it is JSON."""
    headers = {"Content-Type": TYPE} | ({"Accept": accept} if accept else {})
    body = safetensors.numpy.save(tensors, metadata)
    status, headers, reply = daemon.raw("POST", path + ("?" + urlencode(query) if query else ""), body, headers)
    if headers["content-type"] == TYPE:
        assert status == 200
        return load(reply)
    return json.loads(reply)


def attention(q, k, v, bias=0.0):
    """By the formula, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


class Safetensors(unittest.TestCase):
    def test_three_lines(self):
        t = arrays()
        reply = post("/attention", t)
        self.assertEqual(list(reply), ["output"])
        reply = safetensors.numpy.load(daemon.raw("POST", "/attention", safetensors.numpy.save(t), {"Content-Type": TYPE})[2])
        np.testing.assert_allclose(reply["output"], attention(**t), rtol=2e-5, atol=2e-6)

    def test_every_dtype_in(self):
        for name in ("F64", "F32", "F16", "BF16"):
            for compute in ("float32", "float64"):
                t = arrays(NAMES[name])
                same = {n: a.astype(np.float64 if compute == "float64" else np.float32) for n, a in t.items()}
                got, want = (post("/attention", x, {"dtype": compute})["output"] for x in (t, same))
                self.assertEqual(got.dtype, np.dtype(compute))
                self.assertEqual(got.tobytes(), want.tobytes(), (name, compute))

    def test_every_dtype_out(self):
        t = arrays()
        for compute in ("float32", "float64"):
            exact = post("/attention", t, {"dtype": compute})["output"]
            for name, dtype in NAMES.items():
                got = post("/attention", t, dtype=compute, reply_dtype=name)["output"]
                self.assertEqual(got.dtype, np.dtype(dtype))
                if (compute, name) != ("float64", "BF16"):  # ml_dtypes goes by way of float32
                    self.assertEqual(got.tobytes(), exact.astype(dtype).tobytes(), (compute, name))
                text = np.array(post("/attention", t, accept="application/json", dtype=compute, reply_dtype=name)["output"])
                self.assertEqual(text.astype(dtype).tobytes(), got.tobytes(), (compute, name))

    def test_masks_and_integers(self):
        t = arrays(n_k=6)
        t["mask"] = np.tril(np.ones((6, 6), bool))
        causal = post("/attention", {n: t[n] for n in "qkv"}, causal="true")
        self.assertEqual(post("/attention", t)["output"].tobytes(), causal["output"].tobytes())
        for dtype in (np.int32, np.int64):
            t["kv_lengths"], t["window"] = np.array([3, 5], dtype), np.array([2, 0], dtype)
            reply = post("/attention", t, {"return": '["output", "lse"]'})
            self.assertEqual(reply["lse"].shape, (2, 3, 6))
        t["scale"], t["causal"] = np.array(0.25), np.array(True)
        self.assertEqual(post("/attention", t)["output"].shape, (2, 3, 6, 8))

    def test_minus_infinity(self):
        t = arrays(n_k=6)
        reply = post("/attention", t, {"causal": "true", "return": "masked"})
        self.assertTrue(np.array_equal(np.isneginf(reply["masked"][0, 0]), ~np.tril(np.ones((6, 6), bool))))

    def test_projections(self):
        w = {n: random.standard_normal((8, 8)).astype(np.float32) for n in ("w_q", "w_k", "w_v", "w_o")}
        reply = post("/mha", {"x": random.standard_normal((2, 5, 8)).astype(np.float32), **w}, {"num_heads": "2", "trace": "true"})
        self.assertEqual(reply["weights"].shape, (2, 2, 5, 5))
        self.assertEqual(reply["heads"].shape, (2, 5, 8))

    def test_same_as_json(self):
        t = arrays()
        document = {n: a.tolist() for n, a in t.items()}
        wanted = daemon.post_json("/attention", document)["output"]
        self.assertEqual(post("/attention", t, accept="application/json")["output"], wanted)
        self.assertEqual(post("/attention", t)["output"].tobytes(), np.array(wanted, np.float32).tobytes())

    def test_said_twice(self):
        t = arrays()
        problem = post("/attention", t, {"causal": "true"}, causal="false")
        self.assertEqual(problem["code"], "out_of_range")
        self.assertIn("query string: causal", problem["detail"])
        self.assertIn("output", post("/attention", t, {"window": "[1, 2]"}, window="1,2"))

    def test_large(self):
        t = arrays(shape=(8, 1024, 64), n_k=1024)
        reply = post("/attention", t)
        np.testing.assert_allclose(reply["output"][0], attention(*(t[n][0] for n in "qkv")), rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
