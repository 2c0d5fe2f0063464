"""Tessera for PyTorch: a drop-in for F.scaled_dot_product_attention, and attend() with gradients.

    import tessera.torch
    out = tessera.torch.sdpa(q, k, v, is_causal=True)       # the signature and meaning of F.sdpa
    with tessera.torch.patched() as report:                 # existing models, unchanged
        model(x)
    print(report)                                           # what ran here, what fell back, and why

Both go through the operator `tessera::attend`, which has a fake implementation, so torch.compile and
torch.export see one node. Gradients are exact and slow: the backward pass recomputes the scores with
PyTorch and stores them.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from typing import Iterator

import torch
import torch.nn.functional as F

from . import _binding, _torch_math
from ._options import Options, parse
from ._torch_sdpa import adapt, device_refusal, refusal

__all__ = ["attend", "fallbacks", "last_fallback", "patched", "Report", "sdpa", "why_not"]

if not hasattr(torch.library, "register_autograd"):
    raise ImportError(
        f"tessera.torch needs PyTorch 2.4 or newer, and this is {torch.__version__}; tessera.attend() takes the "
        "tensors of any version, without gradients"
    )

_ALIGN_NAMES = (None, "top-left", "bottom-right")
_library = torch.library.Library("tessera", "DEF")
_library.define(
    "attend(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? alibi, Tensor? sinks, Tensor? key_lengths, "
    "int align, int left, int right, float scale, float softcap, str kernel) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _new_output(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Room for the output in q's memory order, [b, h, s, d] or [b, s, h, d], as what follows attention in
    a model is usually a transpose back."""
    batch, heads, queries, _ = q.shape
    if not q.is_contiguous() and q.transpose(1, 2).is_contiguous():
        return q.new_empty((batch, queries, heads, v.shape[3])).transpose(1, 2)
    return q.new_empty((batch, heads, queries, v.shape[3]))


def _rows(t: torch.Tensor) -> torch.Tensor:
    """The tensor with a contiguous last dimension; a copy only where it has none."""
    return t if t.stride(-1) == 1 or t.shape[-1] <= 1 else t.contiguous()


def _compute(q, k, v, mask, alibi, sinks, key_lengths, align, left, right, scale, softcap, kernel):
    if mask is not None and mask.dim() > 0 and mask.stride(-1) != 0:  # stride 0 is read as broadcasting
        mask = _rows(mask)
    return _binding.attend_memory(
        _rows(q),
        _rows(k),
        _rows(v),
        mask=mask,
        alibi=alibi,
        sinks=sinks,
        key_lengths=key_lengths,
        window=(None if left < 0 else left, None if right < 0 else right, _ALIGN_NAMES[align]) if align else None,
        scale=scale or None,
        softcap=softcap or None,
        kernel=kernel or None,
        out=_new_output(q, v),
        return_lse=True,
    )


def _fake(q, k, v, *_):
    return _new_output(q, v), q.new_empty(q.shape[:3], dtype=torch.float32)


def _setup_context(ctx, inputs, output) -> None:
    ctx.options = Options(*inputs[7:])
    ctx.save_for_backward(*inputs[:7])
    ctx.set_materialize_grads(False)


def _backward(ctx, grad_output, grad_lse):
    x = _torch_math.Inputs(*ctx.saved_tensors)
    if grad_output is None:
        grad_output = x.q.new_zeros((*x.q.shape[:3], x.v.shape[3]))
    return (*_torch_math.backward(x, ctx.options, grad_output, grad_lse), *(None,) * 7)


_library.impl("attend", _compute, "CompositeExplicitAutograd")
torch.library.register_fake("tessera::attend", _fake, lib=_library)
torch.library.register_autograd("tessera::attend", _backward, setup_context=_setup_context, lib=_library)
_operator = torch.ops.tessera.attend.default


def attend(
    q,
    k,
    v,
    *,
    mask=None,
    causal=None,
    window=None,
    scale=None,
    softcap=None,
    alibi=None,
    sinks=None,
    key_lengths=None,
    return_lse=False,
    out=None,
    kernel=None,
):
    """tessera.attend() with gradients, and as one node of a compiled graph."""
    if out is not None:
        if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v)):
            raise ValueError("out= has no gradient; leave it off, or call under torch.no_grad()")
        return _binding.attend_memory(
            q, k, v, mask=mask, causal=causal, window=window, scale=scale, softcap=softcap, alibi=alibi,
            sinks=sinks, key_lengths=key_lengths, return_lse=return_lse, out=out, kernel=kernel,
        )  # fmt: skip
    options = parse(
        causal, window, scale, softcap, kernel,
        queries=q.shape[-2], keys=k.shape[-2], has_lengths=key_lengths is not None,
    )  # fmt: skip
    output, lse = _operator(q, k, v, mask, alibi, sinks, key_lengths, *options)
    return (output, lse) if return_lse else output


class Report:
    """What sdpa() did: how many calls ran on Tessera, and how many fell back for which reason."""

    def __init__(self) -> None:
        self.calls = 0
        self.fallbacks: collections.Counter[str] = collections.Counter()

    def __str__(self) -> str:
        lines = [f"{self.calls} calls on Tessera, {sum(self.fallbacks.values())} on PyTorch"]
        return "\n".join(lines + [f"  {count} x {why}" for why, count in self.fallbacks.most_common()])


_lock = threading.Lock()
_total = Report()
_reports: list[Report] = [_total]
_last_fallback: str | None = None
_pytorch_sdpa = F.scaled_dot_product_attention


def _note(why: str | None) -> None:
    global _last_fallback
    with _lock:
        if why is not None:
            _last_fallback = why
        for report in _reports:
            if why is None:
                report.calls += 1
            else:
                report.fallbacks[why] += 1


def last_fallback() -> str | None:
    """Why sdpa() last left a call to PyTorch; None if it never did."""
    return _last_fallback


def fallbacks() -> collections.Counter[str]:
    """Every reason so far, with how often it came up."""
    with _lock:
        return collections.Counter(_total.fallbacks)


def why_not(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Why sdpa() would leave this call to PyTorch, in a sentence; None if Tessera computes it."""
    del scale  # every number is fine
    return refusal(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)


def _someone_watches() -> bool:
    """True while calls must pass PyTorch's dispatcher: under modes, transforms, tracing and autocast."""
    return _dispatch_modes() > 0 or _transforms_active() or _tracing() or _autocasting()


# Private to PyTorch, and looked up with care: without them every call takes the long way, which is right too.
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_tracing = getattr(torch._C, "_is_tracing", lambda: True)
_autocasting = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)


def _quick(query, key, value, attn_mask, is_causal, scale, enable_gqa):
    """The common call, plain tensors of four dimensions, without the host cost of the long way; else None."""
    plain = torch.Tensor
    if not (type(query) is plain and type(key) is plain and type(value) is plain) or _someone_watches():
        return None
    if attn_mask is not None and (type(attn_mask) is not plain or is_causal):
        return None
    if not query.is_cpu and device_refusal(query.device.type, query.dtype) is not None:
        return None
    # Fewer K/V heads mean grouping to the library, which PyTorch does only when asked.
    if query.dim() != 4 or key.dim() != 4 or (query.size(1) != key.size(1) and not enable_gqa):
        return None
    try:
        output = _binding.attend(
            query, key, value, mask=attn_mask, causal="top-left" if is_causal else None, scale=scale
        )
    except (ValueError, TypeError, RuntimeError, NotImplementedError, BufferError):
        return None  # the long way finds out what was wrong, and says so
    _note(None)
    return output


def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention, computed by Tessera where it can.

    What it cannot compute goes to PyTorch; last_fallback() then says why. Arguments that PyTorch refuses
    are refused by PyTorch, in its own words.
    """
    compiling = torch.compiler.is_compiling()
    if not compiling and dropout_p == 0.0:
        output = _quick(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        if output is not None:
            return output
    why = refusal(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if why is None:
        call = adapt(query, key, value, attn_mask, enable_gqa)
        options = parse("top-left" if is_causal else None, None, scale, None, None, queries=0, keys=0,
                        has_lengths=False)  # fmt: skip
        if compiling:
            return call.restore(_operator(call.q, call.k, call.v, call.mask, None, None, None, *options)[0])
        try:
            output = _operator(call.q, call.k, call.v, call.mask, None, None, None, *options)[0]
        except _binding.Error as error:  # the library has the last word on what it takes
            why = str(error)
        else:
            _note(None)
            return call.restore(output)
    if not compiling:
        _note(why)
    return _pytorch_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


@contextlib.contextmanager
def patched() -> Iterator[Report]:
    """Makes F.scaled_dot_product_attention sdpa(), for the whole process, until the block ends.

    Code that looks the function up when it calls it is reached: torch.nn.MultiheadAttention, most model
    libraries. Code that imported the bare name earlier is not, nor are fused modules that never call it.
    """
    report = Report()
    with _lock:
        _reports.append(report)
        F.scaled_dot_product_attention = sdpa
    try:
        yield report
    finally:
        with _lock:
            _reports.remove(report)
            if len(_reports) == 1:
                F.scaled_dot_product_attention = _pytorch_sdpa
