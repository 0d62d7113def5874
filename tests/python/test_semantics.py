"""Each row of the tables of docs/semantics.md, shown with the libraries themselves. A library that is not installed is
skipped, and said so; the last test checks that no row lacks a test."""
import importlib.util
import os
import pathlib
import re
import sys
import unittest

import numpy as np

from daemon import Daemon

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
ROOT = pathlib.Path(__file__).parents[2]
covered = set()
daemon = None


def setUpModule():
    global daemon
    daemon = Daemon()
    for name in ("torch", "onnxruntime", "jax", "keras"):
        if not importlib.util.find_spec(name):
            print(f"SKIP test_semantics: {name} is not installed", file=sys.stderr)


def tearDownModule():
    daemon.stop()


def shows(*rows):
    """The test shows these rows of the document."""
    covered.update(rows)
    return lambda test: test


def needs(name):
    return unittest.skipUnless(importlib.util.find_spec(name), f"{name} is not installed")


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def post(path="/attention", **fields):
    body = {name: np.asarray(value).tolist() if hasattr(value, "__array__") else value for name, value in fields.items()}
    reply = daemon.post_json(path, body)
    return {name: np.array(rows, float) for name, rows in reply.items()}  # null, which is -infinity, becomes NaN


def ours(q, k, v, **fields):
    return post(q=q, k=k, v=v, **fields)["output"]


def alike(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5)


class Comparison(unittest.TestCase):
    def same(self, theirs, mine):
        self.assertTrue(alike(theirs, mine), f"theirs {np.asarray(theirs)}, ours {np.asarray(mine)}")

    def differ(self, theirs, mine):
        self.assertFalse(alike(theirs, mine), "the document says that they differ")

    def all_nan(self, theirs):
        self.assertTrue(np.isnan(np.asarray(theirs)).all(), f"expected NaN, got {np.asarray(theirs)}")


# bhnd, two queries on four keys; the first query of MASK has no open key
Q, K, V = normal(1, 2, 2, 4, seed=1), normal(1, 2, 4, 4, seed=2), normal(1, 2, 4, 4, seed=3)
MASK = np.array([[0, 0, 0, 0], [1, 1, 0, 1]], bool)
SOME = np.array([[0, 1, 1, 0], [1, 1, 0, 1]], bool)
BIAS = normal(2, 4)
Q4 = normal(1, 4, 2, 4)
V_NAN = np.where(np.arange(4)[:, None] == 2, np.float32(np.nan), V)  # key 2, which both rows of MASK block


def swap(a):
    """bhnd to bnhd and back."""
    return np.ascontiguousarray(np.swapaxes(a, 1, 2))


@needs("torch")
class Torch(Comparison):
    @classmethod
    def setUpClass(cls):
        import torch
        torch.manual_seed(1)
        cls.torch = torch
        module = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval().requires_grad_(False)
        module.in_proj_bias.copy_(torch.from_numpy(normal(12)))
        module.out_proj.bias.copy_(torch.from_numpy(normal(4)))
        cls.module = module
        cls.x = normal(1, 3, 4)
        cls.weights = {"num_heads": 2, "weight_layout": "out_in", "w_qkv": module.in_proj_weight.numpy(),
                       "b_qkv": module.in_proj_bias.numpy(), "w_o": module.out_proj.weight.numpy(),
                       "b_o": module.out_proj.bias.numpy()}

    def sdpa(self, q=Q, k=K, v=V, **options):
        tensor = self.torch.from_numpy
        options = {name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}
        return self.torch.nn.functional.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), **options).numpy()

    def mha(self, module=None, x=None, **options):
        x = self.torch.from_numpy(self.x if x is None else x)
        options = {name: self.torch.from_numpy(value) if isinstance(value, np.ndarray) else value
                   for name, value in options.items()}
        output, weights = (module or self.module)(x, x, x, **options)
        return output.numpy(), None if weights is None else weights.numpy()

    @shows("mask", "bias", "scale", "true in a mask")
    def test_masks_of_sdpa(self):
        self.same(self.sdpa(attn_mask=SOME), ours(Q, K, V, mask=SOME))
        self.differ(self.sdpa(attn_mask=SOME), ours(Q, K, V, mask=~SOME))
        self.same(self.sdpa(attn_mask=BIAS), ours(Q, K, V, bias=BIAS))
        self.same(self.sdpa(scale=0.3), ours(Q, K, V, scale=0.3))

    @shows("mask of 0 and 1")
    def test_a_mask_of_zeros_and_ones_is_added(self):
        ones = SOME.astype(np.float32)
        self.same(self.sdpa(attn_mask=ones), ours(Q, K, V, bias=ones))
        self.differ(self.sdpa(attn_mask=ones), ours(Q, K, V, mask=ones))
        with self.assertRaises(RuntimeError):
            self.sdpa(attn_mask=SOME.astype(np.int64))
        square = np.tri(3, dtype=np.float32)
        self.same(self.mha(attn_mask=square)[0], post("/mha", x=self.x, bias=square, **self.weights)["output"])

    @shows("causal", "query_offset", "causal corner, n_q ≠ n_k")
    def test_causal_corners(self):
        from torch.nn.attention.bias import causal_lower_right
        lower_right = causal_lower_right(2, 4)
        self.same(self.sdpa(is_causal=True), ours(Q, K, V, causal=True))
        self.same(self.sdpa(attn_mask=lower_right), ours(Q, K, V, causal=True, query_offset="end"))
        self.differ(self.sdpa(is_causal=True), ours(Q, K, V, causal=True, query_offset="end"))

    @shows("past_k, past_v", "causal with a cache")
    def test_decoding(self):
        q, past_k, past_v, k, v = Q[:, :, :1], K[:, :, :3], V[:, :, :3], K[:, :, 3:], V[:, :, 3:]
        mine = ours(q, k, v, past_k=past_k, past_v=past_v, causal=True)
        self.same(self.sdpa(q), mine)
        self.same(self.sdpa(q, is_causal=True), V[:, :, :1])  # key 0 alone

    @shows("causal and mask together")
    def test_causal_and_mask(self):
        with self.assertRaises(RuntimeError):
            self.sdpa(attn_mask=SOME, is_causal=True)
        both = SOME & np.tri(2, 4, dtype=bool)
        self.same(self.sdpa(attn_mask=both), ours(Q, K, V, mask=SOME, causal=True))

    @shows("rows without an open key")
    def test_empty_rows(self):
        self.same(self.sdpa(attn_mask=MASK), ours(Q, K, V, mask=MASK))
        self.same(ours(Q, K, V, mask=MASK)[0, :, 0], np.zeros((2, 4)))
        blocked = np.ones((1, 3), bool)
        mine = post("/mha", x=self.x, kv_lengths=[0], return_weights=True, **self.weights)
        x = [self.torch.from_numpy(self.x.copy()) for _ in range(3)]
        blocked_tensor = self.torch.from_numpy(blocked)
        self.all_nan(self.mha(key_padding_mask=blocked)[0])
        self.all_nan(self.mha(key_padding_mask=blocked, need_weights=False)[0])  # the fast path of self-attention
        self.same(self.module(*x, key_padding_mask=blocked_tensor, need_weights=False)[0], mine["output"])
        self.same(mine["output"], np.broadcast_to(self.weights["b_o"], (1, 3, 4)))
        self.same(mine["weights"], np.zeros((1, 2, 3, 3)))

    @shows("NaN or infinity at a blocked key")
    def test_nan_behind_the_mask(self):
        self.all_nan(self.sdpa(v=V_NAN, attn_mask=MASK)[0, :, 1])
        self.same(ours(Q, K, V_NAN, mask=MASK), ours(Q, K, V, mask=MASK))

    @shows("num_kv_heads", "grouped heads")
    def test_grouped_heads(self):
        self.same(self.sdpa(Q4, enable_gqa=True), ours(Q4, K, V))

    @shows("kv_lengths", "true in a mask", "mask", "bias", "causal")
    def test_masks_of_mha(self):
        padding = np.array([[False, False, True]])
        self.same(self.mha(key_padding_mask=padding)[0], post("/mha", x=self.x, kv_lengths=[2], **self.weights)["output"])
        blocked = ~np.tri(3, dtype=bool)
        for options in ({"attn_mask": blocked}, {"attn_mask": blocked, "is_causal": True}):
            self.same(self.mha(**options)[0], post("/mha", x=self.x, causal=True, **self.weights)["output"])
            self.same(self.mha(**options)[0], post("/mha", x=self.x, mask=~blocked, **self.weights)["output"])

    @shows("return_weights", "weights of heads")
    def test_weights(self):
        self.same(self.mha()[1], post("/mha", x=self.x, return_weights="average", **self.weights)["weights"])
        self.same(self.mha(average_attn_weights=False)[1],
                  post("/mha", x=self.x, return_weights=True, **self.weights)["weights"])

    @shows("dropout")
    def test_dropout(self):
        self.differ(self.sdpa(dropout_p=0.5), ours(Q, K, V))
        self.same(self.sdpa(dropout_p=0.0), ours(Q, K, V))
        module = self.torch.nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.5).eval().requires_grad_(False)
        module.load_state_dict(self.module.state_dict())
        self.same(self.mha(module)[0], post("/mha", x=self.x, **self.weights)["output"])

    @shows("layout of q, k, v", "layout of weights")
    def test_layouts(self):
        self.same(self.sdpa(), ours(Q, K, V))
        self.same(self.mha()[0], post("/mha", x=self.x, **self.weights)["output"])
        module = self.torch.nn.MultiheadAttention(4, 2).eval().requires_grad_(False)
        module.load_state_dict(self.module.state_dict())
        self.same(self.mha(module, self.x.transpose(1, 0, 2))[0].transpose(1, 0, 2), self.mha()[0])
        self.differ(self.mha(module)[0], self.mha()[0])


@needs("jax")
class Jax(Comparison):
    def theirs(self, q=Q, k=K, v=V, **options):
        import jax
        return swap(np.asarray(jax.nn.dot_product_attention(swap(q), swap(k), swap(v), **options)))

    @shows("mask", "bias", "kv_lengths", "scale", "causal", "causal corner, n_q ≠ n_k", "true in a mask",
           "causal and mask together", "layout of q, k, v")
    def test_options(self):
        self.same(self.theirs(mask=SOME[None, None]), ours(Q, K, V, mask=SOME))
        self.same(self.theirs(bias=BIAS[None, None]), ours(Q, K, V, bias=BIAS))
        self.same(self.theirs(key_value_seq_lengths=np.array([2])), ours(Q, K, V, kv_lengths=[2]))
        self.same(self.theirs(scale=0.3), ours(Q, K, V, scale=0.3))
        self.same(self.theirs(is_causal=True), ours(Q, K, V, causal=True))
        self.differ(self.theirs(is_causal=True), ours(Q, K, V, causal=True, query_offset="end"))
        both = np.array([[[[1, 0, 1, 0], [0, 1, 0, 1]]]], bool)
        self.same(self.theirs(mask=both, is_causal=True), ours(Q, K, V, mask=both, causal=True))
        self.same(self.theirs(), swap(ours(swap(Q), swap(K), swap(V), layout="bnhd")))

    @shows("window", "size of a window")
    def test_windows(self):
        for window in ((1, 0), (0, 2), (1, 1)):
            self.same(self.theirs(K, local_window_size=window), ours(K, K, V, window=list(window)))

    @shows("num_kv_heads", "grouped heads", "past_k, past_v")
    def test_heads_and_cache(self):
        self.same(self.theirs(Q4), ours(Q4, K, V))
        self.same(self.theirs(), ours(Q, K[:, :, 3:], V[:, :, 3:], past_k=K[:, :, :3], past_v=V[:, :, :3]))

    @shows("lse")
    def test_lse(self):
        import jax
        lse = jax.nn.dot_product_attention(swap(Q), swap(K), swap(V), return_residual=True)[1]
        self.same(swap(np.asarray(lse)), post(q=Q, k=K, v=V, **{"return": ["lse"]})["lse"])

    @shows("rows without an open key", "NaN or infinity at a blocked key")
    def test_empty_rows_and_nan(self):
        self.same(self.theirs(mask=MASK[None, None])[0, :, 0], V[0].mean(1))
        self.same(self.theirs(key_value_seq_lengths=np.array([0]))[0, :, 1], V[0].mean(1))
        self.all_nan(self.theirs(v=V_NAN, mask=MASK[None, None])[0, :, 1])


@needs("keras")
class Keras(Comparison):
    @classmethod
    def setUpClass(cls):
        import keras
        cls.keras, cls.x = keras, normal(1, 3, 4)
        cls.layer, cls.weights = cls.layer_of(keras.layers.MultiHeadAttention(num_heads=2, key_dim=2), cls.x)

    @staticmethod
    def layer_of(layer, x):
        """The layer with random weights, and the same weights as fields of /mha."""
        layer(x, x)
        layer.set_weights([normal(*w.shape, seed=i) for i, w in enumerate(layer.get_weights())])
        fields = {}
        for i, name in enumerate(("q", "k", "v", "o")):
            kernel, bias = layer.get_weights()[2 * i:2 * i + 2]
            fields["w_" + name] = kernel.reshape(-1, kernel.shape[-1]) if name == "o" else kernel.reshape(kernel.shape[0], -1)
            fields["b_" + name] = bias.ravel()
        return layer, {"num_heads": layer.get_weights()[0].shape[1], **fields}

    def same_as_mha(self, theirs, **fields):
        self.same(theirs, post("/mha", **{"x": self.x, **self.weights, **fields})["output"])

    @shows("mask", "kv_lengths", "causal", "true in a mask", "layout of weights", "dropout", "causal and mask together")
    def test_options(self):
        self.same_as_mha(self.layer(self.x, self.x))
        dropping = self.keras.layers.MultiHeadAttention(num_heads=2, key_dim=2, dropout=0.5)
        dropping(self.x, self.x)
        dropping.set_weights(self.layer.get_weights())
        self.same_as_mha(dropping(self.x, self.x))
        self.differ(dropping(self.x, self.x, training=True), self.layer(self.x, self.x))
        allowed = np.array([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]], bool)
        self.same_as_mha(self.layer(self.x, self.x, attention_mask=allowed), mask=allowed[:, None])
        real = np.array([[True, True, False]])
        self.same_as_mha(self.layer(self.x, self.x, value_mask=real), kv_lengths=[2])
        self.same_as_mha(self.layer(self.x, self.x, key_mask=real), kv_lengths=[2])
        self.same_as_mha(self.layer(self.x, self.x, use_causal_mask=True), causal=True)
        self.same_as_mha(self.layer(self.x, self.x, attention_mask=np.triu(np.ones((1, 3, 3), bool)), use_causal_mask=True),
                         mask=np.eye(3, dtype=bool))

    @shows("causal corner, n_q ≠ n_k")
    def test_causal_corner(self):
        theirs = self.layer(self.x[:, :2], self.x, use_causal_mask=True)
        self.same_as_mha(theirs, x=self.x[:, :2], context=self.x, causal=True)
        self.differ(theirs, post("/mha", x=self.x[:, :2], context=self.x, causal=True, query_offset="end",
                                 **self.weights)["output"])

    @shows("return_weights", "weights of heads", "rows without an open key")
    def test_weights_and_empty_rows(self):
        mask = np.array([[[1, 1, 0], [0, 0, 0], [1, 1, 1]]], bool)
        output, weights = self.layer(self.x, self.x, attention_mask=mask, return_attention_scores=True)
        mine = post("/mha", x=self.x, mask=mask[:, None], return_weights=True, **self.weights)
        self.same(output, mine["output"])
        self.same(weights, mine["weights"])
        self.same(mine["output"][0, 1], self.weights["b_o"])
        values = post("/mha", x=self.x, **{"return": ["v"]}, **self.weights)["v"].mean(2).ravel()
        projected = values @ self.weights["w_o"] + self.weights["b_o"]
        self.same(np.asarray(self.layer(self.x, self.x, attention_mask=mask))[0, 1], projected)

    @shows("num_kv_heads", "grouped heads")
    def test_grouped_heads(self):
        layer = self.keras.layers.GroupQueryAttention(head_dim=2, num_query_heads=4, num_key_value_heads=2)
        layer, weights = self.layer_of(layer, self.x)
        self.same(layer(self.x, self.x), post("/mha", x=self.x, num_kv_heads=2, **weights)["output"])

    @shows("layout of q, k, v")
    def test_layout_of_ops(self):
        theirs = self.keras.ops.dot_product_attention(swap(Q), swap(K), swap(V))
        self.same(theirs, ours(swap(Q), swap(K), swap(V), layout="bnhd"))


@needs("onnxruntime")
class OnnxRuntime(Comparison):
    @staticmethod
    def run_node(op, inputs, domain="", opset=25, outputs=1, **attributes):
        import onnxruntime
        from onnx import TensorProto, helper
        names = [f"i{i}" if value is not None else "" for i, value in enumerate(inputs)]
        feed = {name: value for name, value in zip(names, inputs) if name}
        results = [f"o{i}" for i in range(outputs)]
        graph = helper.make_graph(
            [helper.make_node(op, names, results, domain=domain, **attributes)], "one",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feed.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results])
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset),
                                                                       helper.make_opsetid("com.microsoft", 1)])
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feed)

    def theirs(self, q=Q, k=K, v=V, mask=None, past=(None, None), lengths=None, **attributes):
        inputs = [q, k, v, mask, *past, lengths]
        while inputs[-1] is None:
            inputs.pop()
        return self.run_node("Attention", inputs, **attributes)[0]

    @staticmethod
    def packed(a):
        return swap(a).reshape(a.shape[0], a.shape[2], -1)

    @shows("mask", "bias", "scale", "causal", "true in a mask", "mask of 0 and 1", "causal corner, n_q ≠ n_k",
           "causal and mask together")
    def test_options(self):
        self.same(self.theirs(), ours(Q, K, V))
        self.same(self.theirs(mask=SOME), ours(Q, K, V, mask=SOME))
        self.same(self.theirs(mask=SOME.astype(np.float32)), ours(Q, K, V, bias=SOME.astype(np.float32)))
        self.same(self.theirs(mask=BIAS), ours(Q, K, V, bias=BIAS))
        self.same(self.theirs(scale=0.3), ours(Q, K, V, scale=0.3))
        self.same(self.theirs(is_causal=1), ours(Q, K, V, causal=True))
        self.differ(self.theirs(is_causal=1), ours(Q, K, V, causal=True, query_offset="end"))
        both = np.array([[1, 0, 1, 0], [0, 1, 0, 1]], bool)
        self.same(self.theirs(mask=both, is_causal=1), ours(Q, K, V, mask=both, causal=True))

    @shows("kv_lengths", "query_offset", "causal corner, n_q ≠ n_k")
    def test_lengths(self):
        self.same(self.theirs(lengths=np.array([2])), ours(Q, K, V, kv_lengths=[2]))
        theirs = self.theirs(lengths=np.array([3]), is_causal=1)
        self.same(theirs, ours(Q, K, V, kv_lengths=[3], causal=True, query_offset="end"))
        self.differ(theirs, ours(Q, K, V, kv_lengths=[3], causal=True))

    @shows("past_k, past_v", "causal with a cache")
    def test_cache(self):
        theirs = self.theirs(past=(V, K), is_causal=1, outputs=3)
        self.same(theirs, ours(Q, K, V, past_k=V, past_v=K, causal=True))

    @shows("window", "size of a window")
    def test_windows(self):
        self.same(self.theirs(K, left_window_size=1, right_window_size=0), ours(K, K, V, window=[1, 0]))
        theirs = self.grouped(local_window_size=2)
        self.same(theirs, self.grouped_here(window=[1, 0]))
        self.differ(theirs, self.grouped_here(window=[2, 0]))

    def grouped(self, **attributes):
        """com.microsoft GroupQueryAttention of six tokens, four heads on two, causal."""
        empty = np.zeros((1, 2, 6, 8), np.float32)
        inputs = [normal(1, 6, 32), normal(1, 6, 16, seed=1), normal(1, 6, 16, seed=2), empty, empty,
                  np.array([5], np.int32), np.array(6, np.int32)]
        return self.run_node("GroupQueryAttention", inputs, "com.microsoft", outputs=3, num_heads=4, kv_num_heads=2,
                             **attributes)[0]

    @staticmethod
    def grouped_here(**options):
        return ours(normal(1, 6, 32), normal(1, 6, 16, seed=1), normal(1, 6, 16, seed=2), num_heads=4, num_kv_heads=2,
                    causal=True, **options)

    @shows("softcap", "order of softcap")
    def test_softcap(self):
        self.same(self.theirs(mask=BIAS, softcap=0.5), ours(Q, K, V, bias=BIAS, softcap=0.5))
        after = np.tanh((post(q=Q, k=K, v=V, **{"return": ["scaled"]})["scaled"] + BIAS) / 0.5) * 0.5
        e = np.exp(after)
        self.differ(self.theirs(mask=BIAS, softcap=0.5), e / e.sum(-1, keepdims=True) @ V)
        self.same(self.grouped(softcap=0.7), self.grouped_here(softcap=0.7))

    @shows("num_kv_heads", "grouped heads", "layout of q, k, v")
    def test_heads(self):
        self.same(self.theirs(Q4), ours(Q4, K, V))
        theirs = self.theirs(self.packed(Q4), self.packed(K), self.packed(V), q_num_heads=4, kv_num_heads=2)
        self.same(theirs, ours(self.packed(Q4), self.packed(K), self.packed(V), num_heads=4, num_kv_heads=2))

    @shows("return_weights", "scaled, capped, masked", "weights of heads")
    def test_stages(self):
        mine = post(q=Q, k=K, v=V, bias=BIAS, softcap=0.5, trace=True)
        for mode, stage in enumerate(("scaled", "capped", "masked", "weights")):
            theirs = self.run_node("Attention", [Q, K, V, BIAS, None, None], outputs=4, softcap=0.5,
                                   qk_matmul_output_mode=mode)[3]
            self.same(theirs, mine[stage])

    @shows("rows without an open key", "NaN or infinity at a blocked key", "how a key is blocked")
    def test_blocked_keys(self):
        self.same(self.theirs(mask=MASK), ours(Q, K, V, mask=MASK))
        self.all_nan(self.theirs(v=V_NAN, mask=MASK)[0, :, 1])
        mask = np.array([[1, 1, 0, 1]], np.int32)
        loud = np.abs(K) * np.where(np.arange(4)[:, None] == 2, np.float32(1e6), 1)  # key 2 has scores beyond 10000
        packed = [self.packed(a) for a in (np.abs(Q), loud, V)]
        theirs = self.run_node("MultiHeadAttention", [*packed, None, mask], "com.microsoft", num_heads=2)[0]
        self.same(theirs, self.packed(np.broadcast_to(V[:, :, 2:3], V[:, :, :2].shape)))
        self.differ(theirs, ours(*packed, num_heads=2, mask=mask))
        packed[1] = self.packed(K)
        theirs = self.run_node("MultiHeadAttention", [*packed, None, 0 * mask], "com.microsoft", num_heads=2)[0]
        self.assertLess(np.abs(theirs - ours(*packed, num_heads=2)).max(), 2e-3)  # scores near 10000 lose digits
        self.same(ours(*packed, num_heads=2, mask=0 * mask), np.zeros((1, 2, 8)))


class Document(unittest.TestCase):
    def test_every_row_has_a_test(self):
        text = (ROOT / "docs/semantics.md").read_text()
        rows = [re.split(r"(?<!\\)\|", line)[1] for line in text.splitlines() if line.startswith("|")]
        labels = {row.replace("`", "").replace(' "end"', "").strip() for row in rows} - {"---", "here", "topic"}
        self.assertGreater(len(labels), 25)
        self.assertEqual(labels - covered, set(), "rows without a test")
        self.assertEqual(covered - labels, set(), "tests of rows that are not in the document")


if __name__ == "__main__":
    unittest.main()
