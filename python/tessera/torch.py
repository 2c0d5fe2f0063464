"""Tessera for PyTorch: a drop-in for F.scaled_dot_product_attention, and attend() with gradients.

    import tessera.torch
    out = tessera.torch.sdpa(q, k, v, is_causal=True)       # the signature and meaning of F.sdpa
    with tessera.torch.patched() as report:                 # existing models, unchanged
        model(x)
    print(report)                                           # what ran here, what PyTorch did, and why

Both become one node of a compiled graph. What Tessera cannot compute, and what PyTorch computes faster (the
list is in _torch_prefer.py), goes to PyTorch. Gradients are exact and slow: the backward pass recomputes the
scores with PyTorch and stores them.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

import torch
import torch.nn.attention
import torch.nn.functional as F
from torch.autograd import forward_ad

from . import _binding
from ._options import parse

if not hasattr(torch.library, "register_autograd"):
    raise ImportError(
        f"tessera.torch needs PyTorch 2.4 or newer, and this is {torch.__version__}; tessera.attend() takes the "
        "tensors of any version, without gradients"
    )

from . import _torch_append as _append_ops  # noqa: E402
from . import _torch_ops as _ops  # noqa: E402
from . import _torch_report as _reports  # noqa: E402
from ._torch_prefer import FORWARD_ON_CPU, check_choice, faster_elsewhere  # noqa: E402
from ._torch_report import Report, fallbacks, last_fallback  # noqa: E402
from ._torch_sdpa import adapt, device_refusal, has_tangent, is_traced, refusal  # noqa: E402

__all__ = ["attend", "fallbacks", "last_fallback", "patched", "Report", "sdpa", "why_not"]

_pytorch_sdpa = F.scaled_dot_product_attention


def _given(arguments: dict) -> list[str]:
    return [f"{name}=" for name, value in arguments.items() if value is not None]


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
    workspace=None,
    query_offsets=None,
    key_offsets=None,
    page_table=None,
    prior=None,
    mask_align=None,
    invariant=False,
    query_scales=None,
    key_scales=None,
    value_scales=None,
    scale_rows=None,
    precision=None,
    output_dtype=None,
    new_key=None,
    new_value=None,
    rope=None,
    positions=None,
    key_tail=None,
):
    """tessera.attend() with gradients, and as one node of a compiled graph.

    Calls that append or turn, or have keys in two tensors, have no gradients. Batches with offsets, page tables or prior results that do neither,
    and 8-bit inputs, run at once, without gradients or a graph.
    """
    tensors = [t for t in (q, k, v, mask, alibi, sinks, out, *(prior or ()), new_key, new_value, key_tail) if t is not None]
    if has_tangent(tensors):
        raise _binding.Unsupported(
            "a tensor carries a forward-mode tangent, and Tessera has no forward-mode derivative; reverse mode "
            "(backward(), torch.autograd.grad) is accepted"
        )
    if workspace is False:
        workspace = None
    append = {
        "new_key": new_key, "new_value": new_value, "rope": rope, "positions": positions, "key_tail": key_tail,
    }  # fmt: skip
    codes = {
        "query_scales": query_scales, "key_scales": key_scales, "value_scales": value_scales,
        "scale_rows": scale_rows, "precision": precision, "output_dtype": output_dtype,
    }  # fmt: skip
    serving = {
        "query_offsets": query_offsets, "key_offsets": key_offsets, "page_table": page_table, "prior": prior,
        "mask_align": mask_align,
    }  # fmt: skip
    call = {
        "mask": mask, "causal": causal, "window": window, "scale": scale, "softcap": softcap, "alibi": alibi,
        "sinks": sinks, "key_lengths": key_lengths, "kernel": kernel, "invariant": invariant, **serving, **append,
    }  # fmt: skip
    in_graph = is_traced(q) or q.is_meta
    appends = _given(append)
    at_once = _given(codes) if appends else _given({**serving, **codes})
    if not at_once and str(q.dtype).startswith("torch.float8"):
        at_once = ["8-bit q"]
    if not at_once and str(k.dtype).startswith(("torch.float8", "torch.int8")):
        at_once = ["8-bit k"]
    if in_graph and at_once:
        raise ValueError(
            f"{at_once[0]} is for calls that run at once: the operator tessera::{'append' if appends else 'attend'}, "
            "which graphs and fake tensors see, does not take it"
        )
    special = (
        _given({"out": out, "workspace": workspace}) + appends + at_once + (["invariant="] if invariant else [])
    )
    if special:
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            raise ValueError(f"{special[0]} has no gradient; leave it off, or call under torch.no_grad()")
        if in_graph and (workspace is not None or appends and out is not None):
            raise ValueError(
                f"{'workspace=' if workspace is not None else 'out='} is for calls that run at once: the operators of "
                "tessera, which graphs and fake tensors see, take none"
            )
        if in_graph and appends:
            output, lse = _append_ops.attend(q, k, v, **call)
            return (output, lse) if return_lse else output
        return _binding.attend_memory(q, k, v, **call, **codes, return_lse=return_lse, out=out, workspace=workspace)
    options = parse(
        causal, window, scale, softcap, kernel,
        queries=q.shape[-2], keys=k.shape[-2], has_lengths=key_lengths is not None,
    )  # fmt: skip
    output, lse = _ops.attend(q, k, v, mask, alibi, sinks, key_lengths, *options)
    return (output, lse) if return_lse else output


def why_not(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False, prefer="faster"
):
    """Why sdpa() would leave this call to PyTorch, in a sentence; None if Tessera computes it."""
    del scale  # every number is fine
    check_choice(prefer)
    why = refusal(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    return faster_elsewhere(query, key, value, attn_mask) if why is None and prefer == "faster" else why


def _someone_watches() -> bool:
    """True while calls must pass PyTorch's dispatcher: under modes, transforms, tracing, autocast, tangents."""
    return (
        _dispatch_modes() > 0
        or _transforms_active()
        or _tracing()
        or _autocasting()
        or getattr(forward_ad, "_current_level", 0) >= 0
    )


# Private to PyTorch, and looked up with care: without them every call takes the long way, which is right too.
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_tracing = getattr(torch._C, "_is_tracing", lambda: True)
_autocasting = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)


# A version that cannot tell takes the operator that is always right.
_exporting = getattr(torch.compiler, "is_exporting", lambda: True)


def _quick(query, key, value, attn_mask, is_causal, scale, enable_gqa, prefer):
    """The common call, plain tensors of four dimensions, without the host cost of the long way; else None."""
    plain = torch.Tensor
    if not (type(query) is plain and type(key) is plain and type(value) is plain) or _someone_watches():
        return None
    if attn_mask is not None and (type(attn_mask) is not plain or is_causal):
        return None
    # Fewer K/V heads mean grouping to the library, which PyTorch does only when asked.
    if query.dim() != 4 or key.dim() != 4 or (query.size(1) != key.size(1) and not enable_gqa):
        return None
    if _ops.wants_gradient(query, key, value, attn_mask):
        return None
    if not query.is_cpu or FORWARD_ON_CPU:
        if prefer == "faster" and faster_elsewhere(query, key, value, attn_mask) is not None:
            return None
        if not query.is_cpu and device_refusal(query.device.type, query.dtype) is not None:
            return None
    try:
        return _binding.attend_memory(
            query, key, value, mask=attn_mask, causal="top-left" if is_causal else None, scale=scale
        )
    except (ValueError, TypeError, RuntimeError, NotImplementedError, BufferError):
        return None  # the long way finds out what was wrong, and says so


def sdpa(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False, prefer="faster"
):
    """torch.nn.functional.scaled_dot_product_attention, computed by Tessera where it can and is not slower.

    The rest goes to PyTorch; last_fallback() then says why. prefer="tessera" keeps all that Tessera can compute.
    Arguments that PyTorch refuses are refused by PyTorch, in its own words.
    """
    return _sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, prefer)


@torch.compiler.allow_in_graph  # one guard instead of one for everything that is looked at here
def _sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, prefer):
    if prefer != "faster":
        check_choice(prefer)
    if dropout_p == 0.0:
        output = _quick(query, key, value, attn_mask, is_causal, scale, enable_gqa, prefer)
        if output is not None:
            return output
    why = why_not(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa, prefer=prefer)
    if why is None:
        call = adapt(query, key, value, attn_mask, enable_gqa)
        try:
            return call.restore(_operator(call, is_causal, scale))
        except _binding.Error as error:  # the library has the last word on what it takes
            why = str(error)
    _reports.note_fallback(why, is_traced(query))
    return _pytorch(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _operator(call, is_causal, scale):
    # What is exported may be trained later, so it gets the operator that has a gradient.
    if not _exporting() and not _ops.wants_gradient(call.q, call.k, call.v, call.mask):
        return _ops.sdpa(call.q, call.k, call.v, call.mask, is_causal, scale)
    causal = "top-left" if is_causal else None
    return attend(call.q, call.k, call.v, mask=call.mask, causal=causal, scale=scale)


def _pytorch(query, key, value, attn_mask, *arguments, **options):
    if has_tangent([query, key, value, attn_mask]):
        # PyTorch's choice of a kernel overlooks tangents, and its fused kernels refuse them.
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return _pytorch_sdpa(query, key, value, attn_mask, *arguments, **options)
    return _pytorch_sdpa(query, key, value, attn_mask, *arguments, **options)


def _insisting_sdpa(*arguments, **options):
    return sdpa(*arguments, **options, prefer="tessera")


_PATCHES = {"faster": sdpa, "tessera": _insisting_sdpa}
_patches = [_pytorch_sdpa]  # innermost last


@contextlib.contextmanager
def patched(prefer: str = "faster") -> Iterator[Report]:
    """Makes F.scaled_dot_product_attention sdpa(prefer=prefer), for the whole process, until the block ends.

    Code that looks the function up when it calls it is reached: torch.nn.MultiheadAttention, most model
    libraries. Code that imported the bare name earlier is not, nor are fused modules that never call it.
    """
    check_choice(prefer)
    report = Report()
    with _reports.lock:
        _reports.open_reports.append(report)
        _patches.append(_PATCHES[prefer])
        F.scaled_dot_product_attention = _patches[-1]
    try:
        yield report
    finally:
        with _reports.lock:
            report.close()
            _reports.open_reports.remove(report)
            del _patches[len(_patches) - 1 - _patches[::-1].index(_PATCHES[prefer])]
            F.scaled_dot_product_attention = _patches[-1]
