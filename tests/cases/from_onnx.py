"""Writes the node tests of an operator of the onnx package into onnx/, one JSON file each.

    python3 tests/cases/from_onnx.py Attention|FlexAttention     needs: onnx 1.23.2, numpy, ml_dtypes

Files that exist stay as they are. FlexAttention takes graphs that change scores and probabilities; each of
its tests is written with the option that says the same: a bias, a causal mask, a soft cap, or scaled values.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

FOLDER = pathlib.Path(__file__).resolve().parent / "onnx"
DTYPES = {"float16": np.float32, "bfloat16": np.float32}  # written as exact numbers


def number(value):
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(str(value))  # the shortest digits of its own type


def tensor(array):
    array = np.asarray(array)
    exact = array.astype(DTYPES.get(array.dtype.name, array.dtype))
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": [number(x) for x in exact.reshape(-1)]}


def attributes_of(node):
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {name: value if isinstance(value, int) else number(np.float32(value)) for name, value in values.items()
            if not isinstance(value, onnx.GraphProto)}


def constants(graph):
    return {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}


def without_graphs(name, node, inputs, attributes):
    """A FlexAttention test with options in place of its graphs."""
    graphs = {a.name: a.g for a in node.attribute if a.name in ("score_mod", "prob_mod")}
    q, k = inputs["Q"], inputs["K"]
    rows, columns = np.indices((q.shape[2], k.shape[2]), dtype=np.float32)
    if q.dtype == np.float64:
        attributes["softmax_precision"] = onnx.TensorProto.DOUBLE
    for role, graph in graphs.items():
        operations = [n.op_type for n in graph.node]
        scalars = [float(c) for c in constants(graph).values() if c.dtype == np.float32 and c.size == 1]
        if role == "prob_mod" and operations == ["Mul"]:
            inputs["V"] = (inputs["V"] * np.float32(scalars[0])).astype(np.float32)
        elif operations == ["Add"]:
            inputs["attn_mask"] = np.full(rows.shape, scalars[0], np.float32)
        elif operations == ["Div", "Tanh", "Mul"]:
            attributes["softcap"] = scalars[0]
        elif operations[-2:] == ["GreaterOrEqual", "Where"]:
            attributes["is_causal"] = 1
        elif operations[-3:] == ["Sub", "Cast", "Add"]:
            inputs["attn_mask"] = rows - columns
        else:
            sys.exit(f"{name}: {role} is a graph of {operations}")


def node_test(case):
    node = case.model.graph.node[0]
    given, outputs = case.data_sets[0]
    given = dict(zip([i.name for i in case.model.graph.input], given))
    roles = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]
    inputs = {role: given[name] for role, name in zip(roles, node.input) if name}
    results = ["Y", "present_key", "present_value", "qk_matmul_output"]
    names = [role for role, name in zip(results, node.output) if name]
    attributes = attributes_of(node)
    if node.op_type == "FlexAttention":
        without_graphs(case.name, node, inputs, attributes)
    return {
        "name": case.name,
        "op": node.op_type,
        "domain": node.domain or "ai.onnx",
        "opset": next(o.version for o in case.model.opset_import if o.domain == node.domain),
        "source": f"onnx {onnx.__version__}, onnx.backend.test.case.node",
        "tolerance": {"rtol": case.rtol, "atol": case.atol},
        "attributes": dict(sorted(attributes.items())),
        "inputs": {role: tensor(array) for role, array in inputs.items()},
        "outputs": {role: tensor(array) for role, array in zip(names, outputs)},
    }


def text(test):
    def lines(tensors):
        return ",\n".join(f'  "{name}": {json.dumps(value)}' for name, value in tensors.items())

    head = {key: value for key, value in test.items() if key not in ("inputs", "outputs")}
    head = ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in head.items())
    return f'{{\n{head},\n "inputs": {{\n{lines(test["inputs"])}\n }},\n "outputs": {{\n{lines(test["outputs"])}\n }}\n}}\n'


def main():
    for case in collect_testcases(sys.argv[1]):
        path = FOLDER / f"{case.name}.json"
        if "_expanded" in case.name or path.exists():
            continue
        path.write_text(text(node_test(case)))
        print(path.relative_to(FOLDER.parent))


main()
