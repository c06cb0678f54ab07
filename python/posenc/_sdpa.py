"""Names and conventions of ``torch.nn.functional.scaled_dot_product_attention`` in :func:`posenc.attention`."""

from __future__ import annotations

from typing import Optional

from torch import Tensor, bool as torch_bool

from posenc.errors import Error, require_tensors

LAYOUTS = ("bhtd", "bthd")


def heads_first(layout: str, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors as [B, H, T, D], without a copy."""
    if layout not in LAYOUTS:
        raise Error(f"[posenc] layout must be 'bhtd' or 'bthd' but got {layout!r}", kind="out_of_range")
    return tensors if layout == "bhtd" else tuple(x.transpose(1, 2) if x.dim() == 4 else x for x in tensors)


def causal_of(causal: bool, is_causal: Optional[bool], q: Tensor, k: Tensor) -> bool:
    """PyTorch aligns the first query with the first key, posenc the last with the last."""
    if is_causal and q.shape[-2] != k.shape[-2]:
        raise Error(
            f"[attention] is_causal needs as many queries ({q.shape[-2]}) as keys ({k.shape[-2]}): PyTorch aligns the first "
            "query with the first key then; pass causal=True, which aligns the last with the last",
            kind="conflict",
        )
    return causal or bool(is_causal)


def key_mask_of(key_mask: Optional[Tensor], attn_mask: Optional[Tensor], k: Tensor) -> Optional[Tensor]:
    """A mask of PyTorch's that hides keys from all queries; others are windows, packed sequences or biases here."""
    if attn_mask is None:
        return key_mask
    require_tensors("attention", attn_mask=attn_mask)
    if key_mask is not None:
        raise Error("[attention] attn_mask must not be given with key_mask; keep key_mask", kind="conflict")
    batch, keys = k.shape[0], k.shape[-2]
    shape = [1] * (4 - attn_mask.dim()) + list(attn_mask.shape)
    hides_keys = attn_mask.dtype == torch_bool and shape[1:] == [1, 1, keys] and shape[0] in (1, batch)
    if not hides_keys:
        raise Error(
            f"[attention] attn_mask must be bool [B, 1, 1, Tk] but has shape {list(attn_mask.shape)} and type "
            f"{attn_mask.dtype}; use causal=True, window_left and window_right for bands, cu_queries and cu_keys for "
            "packed sequences, and bias= or a spec for numbers that are added",
            kind="unsupported",
        )
    return attn_mask.reshape(shape[0], keys).expand(batch, keys)


def dropout_of(dropout: float, dropout_p: Optional[float]) -> float:
    name, share = ("dropout", dropout) if dropout_p is None else ("dropout_p", dropout_p)
    if isinstance(share, (int, float)) and not 0 <= share < 1:
        raise Error(f"[attention] {name} must be in [0, 1) but got {share}", kind="out_of_range")
    return share
