"""A FastAPI server of the same attention: PEER is numpy or onnx, TUNED 0 or 1.

Untuned it is what the tutorial of FastAPI leads to: a model of the body, a dict as the reply. Tuned it reads the body
with orjson and has it write the array directly; both go past pydantic and the encoder of FastAPI.
"""
import os

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

app = FastAPI()


def numpy_attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2)
    scores *= np.float32(q.shape[-1] ** -0.5)
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores @ v


class Onnx:
    """ONNX Runtime's MultiHeadAttention, its fastest operator here; it wants the heads side by side."""

    def __init__(self):
        self.sessions = {}

    def session(self, heads):
        if heads not in self.sessions:
            import onnxruntime
            from onnx import TensorProto, helper
            values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 3) for name in "qkvy"]
            node = helper.make_node("MultiHeadAttention", list("qkv"), ["y"], domain="com.microsoft", num_heads=heads)
            graph = helper.make_graph([node], "attention", values[:3], values[3:])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21),
                                                            helper.make_opsetid("com.microsoft", 1)])
            model.ir_version = 10
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = os.cpu_count()
            self.sessions[heads] = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                                providers=["CPUExecutionProvider"])
        return self.sessions[heads]

    def __call__(self, q, k, v):
        batch, heads, n, d = q.shape
        packed = {name: array.transpose(0, 2, 1, 3).reshape(batch, array.shape[2], heads * array.shape[3])
                  for name, array in (("q", q), ("k", k), ("v", v))}
        output = self.session(heads).run(None, packed)[0]
        return output.reshape(batch, n, heads, v.shape[3]).transpose(0, 2, 1, 3)


attention = Onnx() if os.environ.get("PEER") == "onnx" else numpy_attention


class Body(BaseModel):
    q: list[list[list[list[float]]]]
    k: list[list[list[list[float]]]]
    v: list[list[list[list[float]]]]


def plain(body: Body):
    arrays = (np.array(values, dtype=np.float32) for values in (body.q, body.k, body.v))
    return {"output": attention(*arrays).tolist()}


async def tuned(request: Request):
    body = orjson.loads(await request.body())
    output = attention(*(np.array(body[name], dtype=np.float32) for name in "qkv"))
    text = orjson.dumps({"output": np.ascontiguousarray(output)}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(text, media_type="application/json")


app.post("/attention")(tuned if os.environ.get("TUNED") == "1" else plain)
