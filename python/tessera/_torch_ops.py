"""The operators `tessera::attend` and `tessera::sdpa`: what compiled graphs and autograd see of Tessera.

Two, because what a model calls by the thousand should cost little on the host: `attend` has every option, the
log-sum-exp and a gradient; `sdpa` has the arguments of PyTorch's own, one result, and no gradient, so that
autograd's part of a call, which is Python, is skipped. It refuses tensors that want one.
"""

from __future__ import annotations

import torch

from . import _binding, _torch_math
from ._options import Options

_ALIGN_NAMES = (None, "top-left", "bottom-right")
_library = torch.library.Library("tessera", "DEF")
_library.define(
    "attend(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? alibi, Tensor? sinks, Tensor? key_lengths, "
    "int align, int left, int right, float scale, float softcap, str kernel) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    "sdpa(Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal, float? scale) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _copied(t: torch.Tensor) -> bool:
    """Whether the kernels need a copy of it: they read rows whose elements lie side by side."""
    return t.stride(-1) != 1 and t.shape[-1] > 1


def _rows(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous() if _copied(t) else t


def _mask_rows(mask: torch.Tensor | None) -> torch.Tensor | None:
    # Stride 0 is read as broadcasting.
    return mask if mask is None or mask.dim() == 0 or mask.stride(-1) == 0 else _rows(mask)


def _empty_output(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A tensor as the binding makes it for the output: its dimensions in the order that q's have in memory."""
    order = [0, 1, 2]
    if 0 not in q.shape and not _copied(q):
        slots = [d for d in order if q.shape[d] > 1 and q.stride(d) > 0]  # the others say nothing about an order
        for slot, d in zip(slots, sorted(slots, key=lambda d: -q.stride(d))):
            order[slot] = d
    shape = (*q.shape[:3], v.shape[3])
    if order == [0, 1, 2]:
        return q.new_empty(shape)
    return q.new_empty([shape[d] for d in order] + [shape[3]]).permute([order.index(d) for d in range(3)] + [3])


def _attend(q, k, v, mask, alibi, sinks, key_lengths, align, left, right, scale, softcap, kernel):
    return _binding.attend_memory(
        _rows(q),
        _rows(k),
        _rows(v),
        mask=_mask_rows(mask),
        alibi=alibi,
        sinks=sinks,
        key_lengths=key_lengths,
        window=(None if left < 0 else left, None if right < 0 else right, _ALIGN_NAMES[align]) if align else None,
        scale=scale or None,
        softcap=softcap or None,
        kernel=kernel or None,
        return_lse=True,
    )


def _attend_fake(q, k, v, *_):
    return _empty_output(q, v), q.new_empty(q.shape[:3], dtype=torch.float32)


def _attend_context(ctx, inputs, output) -> None:
    ctx.options = Options(*inputs[7:])
    ctx.save_for_backward(*inputs[:7])
    ctx.set_materialize_grads(False)


def _attend_backward(ctx, grad_output, grad_lse):
    x = _torch_math.Inputs(*ctx.saved_tensors)
    if grad_output is None:
        grad_output = x.q.new_zeros((*x.q.shape[:3], x.v.shape[3]))
    return (*_torch_math.backward(x, ctx.options, grad_output, grad_lse), *(None,) * 7)


def wants_gradient(q, k, v, mask) -> bool:
    return torch.is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad or (mask is not None and mask.requires_grad)
    )


def _sdpa(q, k, v, mask, is_causal, scale):
    if wants_gradient(q, k, v, mask):
        raise RuntimeError("tessera::sdpa has no gradient; tessera.torch.sdpa() and tessera::attend have")
    return _binding.attend_memory(
        _rows(q), _rows(k), _rows(v), mask=_mask_rows(mask), causal="top-left" if is_causal else None, scale=scale
    )


def _sdpa_fake(q, k, v, *_):
    return _empty_output(q, v)


def _register(name, compute, fake):
    _library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tessera::{name}", fake, lib=_library)
    return getattr(torch.ops.tessera, name).default


attend = _register("attend", _attend, _attend_fake)
torch.library.register_autograd("tessera::attend", _attend_backward, setup_context=_attend_context, lib=_library)
sdpa = _register("sdpa", _sdpa, _sdpa_fake)
_library.impl("sdpa", torch.library.fallthrough_kernel, "Autograd")
