"""The client: one method for each path."""
from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np
from numpy.typing import ArrayLike

from . import safetensors
from .torch_names import service_request

MEDIA_TYPE = "application/vnd.safetensors"
INTEGERS = {"mask", "kv_lengths", "query_offset", "window"}  # fields that may be tensors of integers
OPTIONS = (str, bool, int, float, list, tuple)
TENSORS = {"mask", "bias", "past_k", "past_v", "context", "w_q", "w_k", "w_v", "w_o", "w_qkv",
           "b_q", "b_k", "b_v", "b_o", "b_qkv", "head_mask"}


class ServiceError(Exception):
    """An error that the service reports. Branch on `code`; `pointer` is the place in the request, such as "/k"."""

    def __init__(self, status: int, code: str, detail: str, pointer: Optional[str] = None):
        super().__init__(f"{status} {code}" + (f" at {pointer}" if pointer else "") + f": {detail}")
        self.status, self.code, self.detail, self.pointer = status, code, detail, pointer


class Client:
    """A client of the daemon at `url`. Every request has `headers`, such as Authorization. `timeout` is in seconds.

    A request that the service refuses because it is busy or not ready (429, 503) is sent again, up to `tries` times in
    all, after the pause that the service asks for. A client may be shared by threads."""

    def __init__(self, url: str = "http://127.0.0.1:8080", *, headers: Optional[Mapping[str, str]] = None,
                 timeout: float = 60, tries: int = 6):
        self.url, self.timeout, self.tries = url.rstrip("/"), timeout, tries
        self.headers = dict(headers or {})

    def scaled_dot_product_attention(self, query: ArrayLike, key: ArrayLike, value: ArrayLike,
                                     attn_mask: Optional[ArrayLike] = None, dropout_p: float = 0.0,
                                     is_causal: bool = False, scale: Optional[float] = None,
                                     enable_gqa: bool = False) -> np.ndarray:
        """As torch.nn.functional.scaled_dot_product_attention, also in the dtype of the result. A boolean `attn_mask` is
        true where the query may attend, a float one is added to the scores. `is_causal` aligns the first query with the
        first key. Dropout is not supported: `dropout_p` must be 0."""
        fields, shape = service_request(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return self._post("/attention", fields)["output"].reshape(shape)

    def attention(self, q: ArrayLike, k: ArrayLike, v: ArrayLike, **options: Any) -> Dict[str, np.ndarray]:
        """POST /attention with the fields of the service; `return` is `return_`. The reply by name, such as "output"."""
        return self._post("/attention", {"q": np.asarray(q), "k": np.asarray(k), "v": np.asarray(v), **options})

    def mha(self, x: ArrayLike, num_heads: int, **fields: Any) -> Dict[str, np.ndarray]:
        """POST /mha: multi-head attention with projections (w_q, w_k, w_v, w_o, b_q, ...)."""
        return self._post("/mha", {"x": np.asarray(x), "num_heads": num_heads, **fields})

    def version(self) -> Dict[str, Any]:
        """Versions of the service and its libraries, and the kernel row in use."""
        return json.loads(self._send("/version", None, {}))

    def _post(self, path: str, fields: Mapping[str, Any]) -> Dict[str, np.ndarray]:
        tensors, metadata = split(fields)
        headers = {"Content-Type": MEDIA_TYPE, "Accept": MEDIA_TYPE}
        return safetensors.load(self._send(path, safetensors.save(tensors, metadata), headers))

    def _send(self, path: str, body: Optional[bytes], headers: Mapping[str, str]) -> bytes:
        request = urllib.request.Request(self.url + path, body, {**self.headers, **headers})
        for left in reversed(range(self.tries)):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                    return reply.read()
            except urllib.error.HTTPError as error:
                with error:
                    if error.code not in (429, 503) or left == 0:
                        raise problem(error) from None
                    time.sleep(pause(error.headers.get("Retry-After")))
        raise ValueError("tries must be at least 1")


def split(fields: Mapping[str, Any]) -> Tuple[Dict[str, np.ndarray], Dict[str, str]]:
    """The tensors of a request, and its options as metadata."""
    tensors, metadata = {}, {}
    for name, field in fields.items():
        name = "return" if name == "return_" else name
        if field is None:
            continue
        if name in TENSORS or isinstance(field, np.ndarray):
            array = np.asarray(field)
            if array.dtype.kind in "iu":
                array = array.astype(np.int64 if name in INTEGERS else np.float64)
            tensors[name] = array
        elif isinstance(field, np.generic):
            metadata[name] = json.dumps(field.item())
        elif isinstance(field, OPTIONS):
            metadata[name] = json.dumps(field)
        else:
            raise TypeError(f"{name}: unsupported type {type(field).__name__}")
    return tensors, metadata


def problem(error: urllib.error.HTTPError) -> ServiceError:
    """Something between client and service may have answered instead, without a problem document."""
    try:
        document = json.load(error)
        return ServiceError(error.code, document["code"], document["detail"], document.get("pointer"))
    except (ValueError, KeyError, TypeError):
        return ServiceError(error.code, "", str(error.reason))


def pause(retry_after: Optional[str]) -> float:
    """Seconds; the header may also be a date, or missing."""
    return float(retry_after) if retry_after and retry_after.isdigit() else 1.0
