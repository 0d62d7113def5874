"""Arguments of torch.nn.functional.scaled_dot_product_attention as fields of the service."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np
from numpy.typing import ArrayLike

REPLY_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def service_request(query: ArrayLike, key: ArrayLike, value: ArrayLike, attn_mask: Optional[ArrayLike],
                    dropout_p: float, is_causal: bool, scale: Optional[float],
                    enable_gqa: bool) -> Tuple[Dict[str, Any], Tuple[int, ...]]:
    """The fields, and the shape of the output."""
    q, k, v = np.asarray(query), np.asarray(key), np.asarray(value)
    if dropout_p != 0:
        raise ValueError("dropout is not supported: dropout_p must be 0")
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask and is_causal exclude each other")
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError("query, key and value need at least 2 axes")
    if not q.dtype == k.dtype == v.dtype or q.dtype.name not in REPLY_DTYPES:
        raise TypeError(f"query, key and value must have one floating-point dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    q, k, v, lead = align(q, k, v, enable_gqa)
    fields: Dict[str, Any] = {"q": q, "k": k, "v": v, "causal": bool(is_causal), "scale": scale,
                              "dtype": "float64" if q.dtype == np.float64 else "float32",
                              "reply_dtype": REPLY_DTYPES[q.dtype.name]}
    if attn_mask is not None:
        mask = np.asarray(attn_mask)
        if mask.dtype != bool and mask.dtype.name not in REPLY_DTYPES:
            raise TypeError(f"attn_mask must be boolean or floating-point, got {mask.dtype}")
        if mask.ndim > 2:  # its leading axes are joined as those of q are
            mask = np.broadcast_to(mask, lead + mask.shape[-2:]).reshape(q.shape[:-2] + mask.shape[-2:])
        fields["mask" if mask.dtype == bool else "bias"] = mask
    return fields, lead + (q.shape[-2], v.shape[-1])


def align(q: np.ndarray, k: np.ndarray, v: np.ndarray, enable_gqa: bool):
    """The service does not broadcast q, k and v, and takes at most 4 axes. Returns them, and the output's leading axes.
    The axis before the last two is that of the heads; with grouped heads only the axes before it broadcast."""
    heads = 1 if enable_gqa else 0
    if heads and min(q.ndim, k.ndim, v.ndim) < 3:
        raise ValueError("enable_gqa needs an axis of heads: query, key and value need at least 3 axes")
    kept = 2 + heads  # axes that do not broadcast
    try:
        batch = np.broadcast_shapes(*(x.shape[:-kept] for x in (q, k, v)))
    except ValueError:
        hint = "" if enable_gqa else " (grouped heads need enable_gqa=True)"
        raise ValueError(f"leading axes do not match: {q.shape}, {k.shape}, {v.shape}{hint}") from None
    q, k, v = (np.broadcast_to(x, batch + x.shape[-kept:]) for x in (q, k, v))
    lead = batch + q.shape[-kept:-2]
    if enable_gqa or len(lead) > 2:
        size = int(np.prod(lead[:-1]))
        q, k, v = (x.reshape((size,) + x.shape[-3:]) for x in (q, k, v))
    return q, k, v, lead
