"""The arguments of F.scaled_dot_product_attention as Tessera's: what it cannot take, and how the rest maps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from . import _binding

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_MASK_DTYPES = (torch.bool, *_DTYPES)
_MAX_HEAD_DIM = 1024
_no_override = torch._C._disabled_torch_function_impl  # what parameters and fake tensors carry


def device_refusal(kind: str, dtype: torch.dtype) -> str | None:
    """What the library says about a dtype on a device, asked once with one row."""
    if (kind, dtype) not in _device_answers:
        answer = None
        try:
            with _disable_current_modes():  # a tracer's, under which new tensors have no memory
                probe = torch.zeros(1, 1, 1, 64, device=kind, dtype=dtype)
            _binding.plan(probe, probe, probe)
        except Exception as error:  # whatever a device's producer raises is the reason
            answer = f"query is {dtype} on {kind}: {error}"
        _device_answers[kind, dtype] = answer
    return _device_answers[kind, dtype]


_device_answers: dict[tuple[str, torch.dtype], str | None] = {}


def is_traced(t) -> bool:
    """Whether it only stands for a tensor of a graph that is being made."""
    return torch.compiler.is_compiling() or type(t).__name__ in ("FakeTensor", "FunctionalTensor")


def has_tangent(tensors) -> bool:
    """Whether forward-mode differentiation goes through one of them."""
    if getattr(forward_ad, "_current_level", 0) < 0:
        return False
    return any(forward_ad.unpack_dual(t).tangent is not None for t in tensors if t is not None)


def _kind_refusal(tensors) -> str | None:
    active = getattr(torch._C, "_are_functorch_transforms_active", None)
    if active is not None and not is_traced(tensors[0][1]) and active():
        return "a torch.func transform (vmap, grad, ...) is active"
    if has_tangent([t for _, t in tensors]):
        return "a tensor carries a forward-mode tangent, and Tessera has no forward-mode derivative"
    for name, t in tensors:
        if t.layout != torch.strided:
            return f"{name} has layout {t.layout}; a strided tensor is accepted"
        if t.is_nested:
            return f"{name} is a nested tensor"
        if type(t) is not torch.Tensor and type(t).__torch_function__ is not _no_override:
            return f"{name} is a {type(t).__name__}, a tensor subclass with rules of its own"
    return None


def _shape_refusal(query, key, value, enable_gqa: bool) -> str | None:
    rank = query.dim()
    if rank not in (2, 3, 4) or key.dim() != rank or value.dim() != rank:
        return f"query, key and value have ranks {rank}, {key.dim()}, {value.dim()}; 2, 3 or 4, alike, is accepted"
    for name, t in (("query", query), ("value", value)):
        if not 1 <= t.shape[-1] <= _MAX_HEAD_DIM:
            return f"{name} has head dimension {t.shape[-1]}; 1 to {_MAX_HEAD_DIM} is accepted"
    if key.shape[-1] != query.shape[-1] or key.shape[-2] != value.shape[-2]:
        return "query, key and value disagree in head dimension or number of keys"
    if rank > 2 and 0 in (query.shape[-3], key.shape[-3], value.shape[-3]):
        if rank == 3 and not enable_gqa:
            return "a tensor has no heads"
        # PyTorch divides by the number of heads, which ends the process.
        heads = ", ".join(str(t.shape[-3]) for t in (query, key, value))
        raise _binding.InvalidArgument(f"query, key and value have {heads} heads; 1 or more is accepted")
    if enable_gqa:
        if rank < 3:
            return "enable_gqa without a head dimension"
        heads, kv_heads = query.shape[-3], key.shape[-3]
        if kv_heads != value.shape[-3] or heads % kv_heads != 0:
            return f"heads {heads}, {kv_heads}, {value.shape[-3]} of query, key and value do not group"
    batch_dims = -3 if enable_gqa else -2
    batches = [t.shape[:batch_dims] for t in (query, key, value)]
    if batches[0] == batches[1] == batches[2]:
        return None
    try:
        torch.broadcast_shapes(*batches)
    except RuntimeError:
        return "the batch dimensions of query, key and value do not broadcast"
    return None


def _mask_refusal(query, mask) -> str | None:
    if mask.dtype not in _MASK_DTYPES:
        return f"attn_mask is {mask.dtype}; bool, float32, float16 or bfloat16 is accepted"
    if mask.device != query.device:
        return f"attn_mask is on {mask.device}, but query is on {query.device}"
    if not 1 <= mask.dim() <= max(query.dim(), 2):
        return f"attn_mask has rank {mask.dim()}; 1 to {max(query.dim(), 2)} is accepted"
    return None


def refusal(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa) -> str | None:
    """The sentence why Tessera leaves this call to PyTorch, or None."""
    tensors = [("query", query), ("key", key), ("value", value)]
    if attn_mask is not None:
        tensors.append(("attn_mask", attn_mask))
    if not all(isinstance(t, torch.Tensor) for _, t in tensors):
        return "an argument is not a tensor"
    why = _kind_refusal(tensors)
    if why is not None:
        return why
    if dropout_p != 0.0:
        return f"dropout_p is {dropout_p}; Tessera computes exact attention, without dropout"
    if is_causal and attn_mask is not None:
        return "is_causal and attn_mask are both given, which PyTorch documents as an error"
    if not (query.device == key.device == value.device):
        return f"query, key and value are on {query.device}, {key.device} and {value.device}"
    cast = _autocast_dtype(query)
    for name, t in tensors[:3]:
        if t.dtype not in _DTYPES:
            return f"{name} is {t.dtype}; float32, float16 or bfloat16 is accepted"
        if cast is None and t.dtype != query.dtype:
            return f"{name} is {t.dtype}, but query is {query.dtype}"
    if query.device.type not in ("cpu", "meta"):  # meta tensors are computed by giving them a shape
        why = device_refusal(query.device.type, cast or query.dtype)
        if why is not None:
            return why
    why = _shape_refusal(query, key, value, enable_gqa)
    if why is None and attn_mask is not None:
        why = _mask_refusal(query, attn_mask)
    return why


def _autocast_dtype(query) -> torch.dtype | None:
    kind = query.device.type
    if kind == "meta":  # which PyTorch knows no autocast for
        return None
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


class Adapted(NamedTuple):
    """The call as tessera::attend takes it, and how many dimensions its result has too many."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None
    added_dims: int

    def restore(self, output: torch.Tensor) -> torch.Tensor:
        for _ in range(self.added_dims):
            output = output.squeeze(0)
        return output


def adapt(query, key, value, mask, enable_gqa: bool) -> Adapted:
    """Casts as autocast would, gives every tensor four dimensions, and expands batches that broadcast."""
    cast = _autocast_dtype(query)
    if cast is not None:
        query, key, value = query.to(cast), key.to(cast), value.to(cast)
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.to(cast)
    added = 4 - query.dim()
    # A missing leading dimension becomes the batch: [n, l, e] is n heads, which also places an [n, l, s] mask.
    for _ in range(added):
        query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    if not (query.shape[0] == key.shape[0] == value.shape[0]):
        batch = torch.broadcast_shapes(query.shape[:1], key.shape[:1], value.shape[:1])[0]
        query, key, value = (t.expand(batch, -1, -1, -1) for t in (query, key, value))
    if not enable_gqa and not (query.shape[1] == key.shape[1] == value.shape[1]):
        heads = torch.broadcast_shapes(query.shape[1:2], key.shape[1:2], value.shape[1:2])[0]
        query, key, value = (t.expand(-1, heads, -1, -1) for t in (query, key, value))
    return Adapted(query, key, value, mask, added)
