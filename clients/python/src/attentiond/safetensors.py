"""safetensors files as bytes. NumPy has no bfloat16: arrays of ml_dtypes.bfloat16 are written as BF16, and BF16 is read
as float32, which holds every value of it."""
from __future__ import annotations

import json
import struct
from typing import Dict, Mapping

import numpy as np

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
         "bool": "BOOL", "int64": "I64", "int32": "I32"}
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?", "I64": "<i8", "I32": "<i4"}


def save(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """A file of these tensors; the widest types come first, so that each starts at a multiple of its size."""
    header: dict = {"__metadata__": dict(metadata)} if metadata else {}
    parts, end = [b""], 0
    for name, array in sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize):
        if array.dtype.name not in NAMES:
            raise TypeError(f"{name}: unsupported dtype {array.dtype}")
        if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and struct.pack("=h", 1) != b"\1\0"):
            array = array.astype(array.dtype.newbyteorder("<"))
        data = array.tobytes()  # row-major, whatever the strides are
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": array.shape, "data_offsets": [end, end + len(data)]}
        parts.append(data)
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    parts[0] = struct.pack("<Q", len(text)) + text
    return b"".join(parts)


def load(file: bytes) -> Dict[str, np.ndarray]:
    """The tensors of a file, as arrays that can be written to."""
    start = 8 + struct.unpack_from("<Q", file)[0]
    tensors = {}
    for name, tensor in json.loads(file[8:start]).items():
        if name == "__metadata__":
            continue
        data = memoryview(file)[start:][slice(*tensor["data_offsets"])]
        if tensor["dtype"] == "BF16":
            array = (np.frombuffer(data, "<u2").astype("<u4") << np.uint32(16)).view("<f4")
        else:
            array = np.frombuffer(data, DTYPES[tensor["dtype"]]).copy()
        tensors[name] = array.reshape(tensor["shape"])
    return tensors
