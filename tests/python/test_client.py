"""The client package of clients/python against the formula in NumPy and, if it is installed, against PyTorch."""
import importlib.util
import pathlib
import re
import sys
import unittest
from unittest import mock

import ml_dtypes
import numpy as np

from daemon import Daemon
from test_examples import Busy

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "clients/python/src"))

from attentiond import Client, ServiceError  # noqa: E402
from attentiond.safetensors import load, save  # noqa: E402

daemon = client = None


def setUpModule():
    global daemon, client
    daemon = Daemon()
    client = Client(daemon.url)


def tearDownModule():
    daemon.stop()


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def sdpa(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """By the formula, in float64; rows without an open key are zeros."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = np.tril(np.ones(scores.shape[-2:], bool))
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


MASK = np.random.default_rng(1).random((5, 7)) < 0.6
MASK[2] = False
BIAS = np.where(np.random.default_rng(2).random((3, 5, 7)) < 0.2, -np.inf, normal(3, 5, 7)).astype(np.float32)
BIAS[..., 0] = 0
# shapes of query, key and value, then the other arguments
CALLS = {
    "two axes": ((5, 4), (7, 4), (7, 6), {}),
    "three axes": ((3, 5, 4), (3, 7, 4), (3, 7, 4), {}),
    "four axes": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6), {}),
    "five axes": ((2, 2, 3, 5, 4), (2, 2, 3, 7, 4), (2, 2, 3, 7, 6), {}),
    "causal, more keys": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"is_causal": True}),
    "causal, fewer keys": ((3, 7, 4), (3, 5, 4), (3, 5, 4), {"is_causal": True}),
    "boolean mask, a row blocked": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": MASK}),
    "boolean mask on three axes": ((3, 5, 4), (3, 7, 4), (3, 7, 4), {"attn_mask": MASK[None]}),
    "float mask with -inf": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": BIAS}),
    "float mask on five axes": ((2, 2, 3, 5, 4), (2, 2, 3, 7, 4), (2, 2, 3, 7, 4), {"attn_mask": BIAS}),
    "a mask of one column": ((3, 5, 4), (3, 7, 4), (3, 7, 4), {"attn_mask": np.array([[True]] * 4 + [[False]])}),
    "scale": ((3, 5, 4), (3, 7, 4), (3, 7, 4), {"scale": 0.1}),
    "scale 0": ((3, 5, 4), (3, 7, 4), (3, 7, 4), {"scale": 0}),
    "broadcast keys": ((2, 3, 5, 4), (1, 3, 7, 4), (3, 7, 4), {}),
    "grouped heads": ((2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4), {"enable_gqa": True}),
    "grouped heads on three axes": ((6, 5, 4), (3, 7, 4), (3, 7, 4), {"enable_gqa": True}),
    "grouped heads on five axes": ((2, 2, 6, 5, 4), (2, 1, 2, 7, 4), (2, 1, 2, 7, 4), {"enable_gqa": True}),
}


class TorchNames(unittest.TestCase):
    def check(self, theirs):
        for name, (*shapes, options) in CALLS.items():
            for dtype, near in ((np.float32, 1e-5), (np.float64, 1e-12), (np.float16, 2e-3)):
                with self.subTest(call=name, dtype=dtype.__name__):
                    q, k, v = (normal(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))
                    given = {n: a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype != bool else a
                             for n, a in options.items()}
                    got, want = client.scaled_dot_product_attention(q, k, v, **given), theirs(q, k, v, **given)
                    self.assertEqual((got.dtype, got.shape), (np.dtype(dtype), want.shape))
                    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=near, atol=near)

    def test_formula(self):
        self.check(sdpa)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_torch(self):
        import torch

        def theirs(*arrays, attn_mask=None, **options):
            mask = None if attn_mask is None else torch.from_numpy(attn_mask)
            arrays = map(torch.from_numpy, arrays)
            return torch.nn.functional.scaled_dot_product_attention(*arrays, attn_mask=mask, **options).numpy()
        self.check(theirs)

    def test_refused(self):
        q, k = normal(2, 6, 5, 4), normal(2, 2, 7, 4)
        call = client.scaled_dot_product_attention
        for error, words, arguments in (
                (ValueError, "enable_gqa", {}),
                (ValueError, "dropout", {"dropout_p": 0.1}),
                (ValueError, "exclude", {"attn_mask": MASK, "is_causal": True}),
                (TypeError, "boolean or floating", {"attn_mask": MASK.astype(int), "enable_gqa": True}),
                (ServiceError, "/mask", {"attn_mask": MASK[:, :3], "enable_gqa": True})):
            with self.subTest(words=words), self.assertRaisesRegex(error, words):
                call(q, k, k, **arguments)
        with self.assertRaisesRegex(TypeError, "one floating-point dtype"):
            call(q, k.astype(np.float64), k, enable_gqa=True)


class OwnNames(unittest.TestCase):
    def test_options(self):
        q, k = normal(2, 3, 5, 4), normal(2, 3, 7, 4)
        reply = client.attention(q, k, k, causal=True, window=[2, 0], kv_lengths=np.array([7, 2]), softcap=np.float32(3),
                                 scale="1/d_k", mask=[[1, 0, 1, 1, 1, 1, 1]], return_=["output", "masked", "lse"])
        self.assertEqual(set(reply), {"output", "masked", "lse"})
        i, j = np.ogrid[:5, :7]
        allowed = (j <= i) & (j >= i - 2) & (j != 1) & (j < np.array([7, 2])[:, None, None, None])
        wanted = np.where(allowed, 3 * np.tanh(q @ np.swapaxes(k, -1, -2) / 4 / 3), -np.inf)
        np.testing.assert_allclose(reply["masked"], wanted, rtol=1e-5, atol=1e-5)
        self.assertEqual(list(client.attention(q, k, k)), ["output"])

    def test_integers_and_strides(self):
        reply = client.attention([[2, 0, 1], [0, 2, 1]], [[1, 1, 0], [0, 1, 1]], [[1, 0, 1], [0, 1, 0]])
        np.testing.assert_allclose(reply["output"][0], [0.64045745, 0.35954252, 0.64045745], rtol=1e-6)
        q = normal(4, 5).T
        for array in (q, np.asfortranarray(q), q.astype(">f4")):
            np.testing.assert_allclose(client.attention(array, array, array)["output"], sdpa(q, q, q), rtol=1e-5, atol=1e-6)

    def test_projections(self):
        x, w = normal(5, 8), {name: normal(8, 8, seed=i) for i, name in enumerate(("w_q", "w_k", "w_v", "w_o"))}
        q, k, v = ((x @ w[name]).reshape(5, 2, 4).swapaxes(0, 1) for name in ("w_q", "w_k", "w_v"))
        wanted = sdpa(q, k, v).swapaxes(0, 1).reshape(5, 8) @ w["w_o"]
        np.testing.assert_allclose(client.mha(x, 2, **w)["output"], wanted, rtol=1e-4, atol=1e-4)

    def test_errors(self):
        with self.assertRaises(ServiceError) as caught:
            client.attention(normal(1, 2), normal(1, 3), normal(1, 3))
        error = caught.exception
        self.assertEqual((error.status, error.code, error.pointer), (422, "shape_mismatch", "/k"))
        with self.assertRaises(ServiceError) as caught:
            Client(daemon.url + "/nowhere").version()
        self.assertEqual((caught.exception.code, caught.exception.pointer), ("not_found", None))

    def test_headers(self):
        one = np.ones((1, 1), np.float32)
        with self.assertRaisesRegex(ServiceError, "415 unsupported_media_type"):
            Client(daemon.url, headers={"Content-Encoding": "br"}).attention(one, one, one)

    def test_version(self):
        version = (ROOT / "VERSION").read_text().strip()
        self.assertEqual(client.version()["version"], version)
        self.assertIn(f'\nversion = "{version}"\n', (ROOT / "clients/python/pyproject.toml").read_text())


class Wire(unittest.TestCase):
    def test_retries(self):
        for tries in (3, 2):
            with Busy() as busy, mock.patch("time.sleep") as sleep:
                busy.answers[2] = (200, save({"output": np.ones((1, 1), np.float32)}, {}), None)
                one = np.ones((1, 1), np.float32)
                if tries == 3:
                    self.assertEqual(Client(f"http://{busy.address}").attention(one, one, one)["output"], one)
                else:
                    with self.assertRaisesRegex(ServiceError, "503"):
                        Client(f"http://{busy.address}", tries=2).attention(one, one, one)
                self.assertEqual([call.args[0] for call in sleep.call_args_list], [1, 2][:tries - 1])

    def test_files(self):
        given = {"a": normal(2, 3), "b": np.array(True), "c": normal(0, 4, dtype=np.float64), "d": normal(3, dtype=np.float16),
                 "e": np.arange(3), "f": np.arange(2, dtype=np.int32)}
        for name, array in load(save(given, {"causal": "true"})).items():
            self.assertEqual((array.dtype, array.shape, array.tobytes()),
                             (given[name].dtype, given[name].shape, given[name].tobytes()))
        half = normal(9).astype(ml_dtypes.bfloat16)
        self.assertEqual(load(save({"x": half}, {}))["x"].tolist(), half.astype(np.float32).tolist())
        with self.assertRaisesRegex(TypeError, "complex"):
            save({"x": np.ones(1, complex)}, {})

    def test_readme(self):
        """Its blocks follow each other, and print what they say."""
        text = "".join(re.findall(r"^```py\n(.*?)^```", (ROOT / "clients/python/README.md").read_text(), re.S | re.M))
        printed = []
        exec(text.replace("http://127.0.0.1:8080", daemon.url), {"print": lambda *a: printed.append(" ".join(map(str, a)))})
        wanted = re.findall(r"^ *print\(.*\)  # (.*)$", text, re.M)
        self.assertEqual(len(wanted), 3)
        self.assertEqual(printed, wanted)


if __name__ == "__main__":
    unittest.main()
