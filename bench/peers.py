"""The other libraries, called in this process on ready tensors: each maker gives a function that runs the work once.

Q, k and v are (1, heads, n, d); ONNX Runtime's MultiHeadAttention wants the heads side by side, (1, n, heads * d), and
gets them so. Every peer has the threads it is told, and no more.
"""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from openvino import Core, Model, opset13

RANDOM = np.random.default_rng(1)


def normal(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def onnx_runner(nodes, inputs, output_shape, threads, constants=()):
    """Runs a graph on bound memory: no copies of inputs or outputs are timed."""
    graph = helper.make_graph(
        nodes, "bench", [value(name, *array.shape) for name, array in inputs.items()], [value("y", *output_shape)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 10
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(np.zeros(output_shape, np.float32)))
    return lambda: session.run_with_iobinding(binding)


def onnx_mha(heads, n, d, causal, threads):
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=heads,
                            unidirectional=int(causal))
    inputs = {name: normal(1, n, heads * d) for name in "qkv"}
    return onnx_runner([node], inputs, (1, n, heads * d), threads)


def onnx_attention(heads, n, d, causal, threads):
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=int(causal))
    inputs = {name: normal(1, heads, n, d) for name in "qkv"}
    return onnx_runner([node], inputs, (1, heads, n, d), threads)


def openvino_sdpa(heads, n, d, causal, threads):
    inputs = [opset13.parameter([1, heads, n, d], np.float32) for _ in "qkv"]
    node = opset13.scaled_dot_product_attention(*inputs, causal=bool(causal))
    compiled = Core().compile_model(Model([node], inputs), "CPU", {
        "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1})
    request = compiled.create_infer_request()
    arrays = [normal(1, heads, n, d) for _ in "qkv"]
    return lambda: request.infer(arrays, share_inputs=True, share_outputs=True)


def torch_sdpa(heads, n, d, causal, threads):
    import torch
    torch.set_num_threads(threads)
    arrays = [torch.from_numpy(normal(1, heads, n, d)) for _ in "qkv"]

    def run():
        with torch.inference_mode():
            torch.nn.functional.scaled_dot_product_attention(*arrays, is_causal=bool(causal))
    return run


def layer_weights(d_model):
    return {name: normal(d_model, d_model, scale=d_model ** -0.5) for name in ("wq", "wk", "wv", "wo")}


def onnx_layer(heads, n, d_model, threads):
    nodes = [helper.make_node("MatMul", ["x", "w" + name], [name]) for name in "qkv"]
    nodes.append(helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["heads"], domain="com.microsoft",
                                  num_heads=heads))
    nodes.append(helper.make_node("MatMul", ["heads", "wo"], ["y"]))
    return onnx_runner(nodes, {"x": normal(1, n, d_model)}, (1, n, d_model), threads, layer_weights(d_model).items())


def numpy_layer(heads, n, d_model, threads):
    """NumPy's own threads are set by OPENBLAS_NUM_THREADS before it is loaded: see run.py."""
    x, w, d = normal(n, d_model), layer_weights(d_model), d_model // heads

    def run():
        q, k, v = ((x @ w[name]).reshape(n, heads, d).transpose(1, 0, 2) for name in ("wq", "wk", "wv"))
        s = q @ k.transpose(0, 2, 1) * np.float32(d ** -0.5)
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
        return (s @ v).transpose(1, 0, 2).reshape(n, d_model) @ w["wo"]
    return run


def attention_peers():
    """name -> maker(heads, n, d, causal, threads)"""
    peers = {"ONNX Runtime MultiHeadAttention": onnx_mha, "ONNX Runtime Attention": onnx_attention,
             "OpenVINO": openvino_sdpa}
    try:
        import torch  # noqa: F401
        peers["PyTorch SDPA"] = torch_sdpa
    except ImportError:
        print("PyTorch is not installed (its CPU build is not on PyPI): not compared", flush=True)
    return peers


def versions():
    import openvino
    found = {"NumPy": np.__version__, "ONNX Runtime": ort.__version__, "OpenVINO": openvino.__version__.split("-")[0]}
    try:
        import torch
        found["PyTorch"] = torch.__version__
    except ImportError:
        pass
    return found
