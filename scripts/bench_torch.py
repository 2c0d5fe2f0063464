"""PyTorch's own attentions as contenders: F.scaled_dot_product_attention with every backend, and FlexAttention."""

from __future__ import annotations

from typing import Callable, NamedTuple

import bench_options


class Peer(NamedTuple):
    name: str
    call: Callable | None  # None: it cannot, and `why` says why
    why: str = ""
    capturable: bool = True  # in a CUDA graph of PyTorch
    synchronize: Callable | None = None  # None: PyTorch's, or none needed on a CPU


def torch_backends(device: str) -> dict[str, list | None]:
    """Name to the list that sdpa_kernel() takes; None is PyTorch's own choice."""
    from torch.nn.attention import SDPBackend

    names = ["FLASH_ATTENTION", "MATH"]
    if device == "cuda":
        names += ["CUDNN_ATTENTION", "EFFICIENT_ATTENTION"]
    found: dict[str, list | None] = {"torch default": None}
    for name in names:
        backend = getattr(SDPBackend, name, None)
        if backend is not None:
            found["torch " + name.split("_")[0].lower()] = [backend]
    return found


MOST_MASK_BYTES = 4 << 30


def visible(case, options, b, h, i, j):
    """Whether the band, lengths and a boolean mask leave key j visible: for FlexAttention's indices and for whole tensors."""
    offset = options.lengths[b] if options.lengths is not None else case.keys
    at = i + offset - case.queries if options.align == "bottom-right" else i
    seen = j >= 0
    if options.align and options.left is not None:
        seen = seen & (j >= at - options.left)
    if options.align and options.right is not None:
        seen = seen & (j <= at + options.right)
    if options.lengths is not None:
        seen = seen & (j < options.lengths[b])
    if options.spec and options.spec.content in ("documents", "blocks"):
        place, size = i + case.keys - case.queries, options.spec.block
        seen = seen & (place // size == j // size) & (place >= 0)
        return seen & (j <= place) if options.spec.content == "documents" else seen
    if options.padded is not None:  # by its length, as its users would write it
        return seen & (j < options.padded[b if options.spec.real[0] else 0 * b])
    if options.spec and options.spec.boolean:
        seen = seen & at_index(options.mask, b, h, i, j)
    return seen


def at_index(tensor, *index):
    """tensor[b, h, i, j], where dimensions of size 1 are repeated."""
    return tensor[tuple(x if size > 1 else 0 * x for x, size in zip(index, tensor.shape))]


def sdpa_mask(case, options, device: str):
    """Everything but softcap and sinks as one attn_mask: boolean, or floating where something is added."""
    import torch

    if options.alibi is not None and options.lengths is not None:
        raise ValueError("positions that depend on lengths are not written here")
    if options.spec and not (options.align or options.lengths is not None or options.alibi is not None):
        mask = options.mask
        return mask if options.spec.boolean else mask.to(getattr(torch, case.dtype))
    per_entry = options.lengths is not None or (options.alibi is not None and options.alibi.ndim == 2)
    shape = (case.batch if per_entry else 1, case.heads if options.alibi is not None else 1, case.queries, case.keys)
    shape = tuple(max(a, b) for a, b in zip(shape, options.mask.shape)) if options.mask is not None else shape
    additive = options.alibi is not None or (options.spec and not options.spec.boolean)
    size = (2 if additive else 1) * shape[0] * shape[1] * shape[2] * shape[3]
    if size > MOST_MASK_BYTES:
        raise ValueError(f"its attn_mask would take {size / 2**30:.0f} GiB")
    axes = [torch.arange(n, device=device).reshape([-1 if d == n_d else 1 for d in range(4)]) for n_d, n in enumerate(shape)]
    b, h, i, j = axes
    seen = visible(case, options, b, h, i, j).expand(shape)
    if not additive:
        return seen.contiguous()
    bias = torch.zeros(shape, device=device, dtype=getattr(torch, case.dtype))
    if options.alibi is not None:
        bias -= slope_at(options, b, h) * (i + bench_options.position(case, options, 0) - j).abs()
    if options.spec and not options.spec.boolean:
        bias += options.mask.to(bias.dtype)
    return bias.masked_fill_(~seen, float("-inf"))


def slope_at(options, b, h):
    return options.alibi[h] if options.alibi.ndim == 1 else options.alibi[b, h]


def torch_peer(name: str, backends, case, options, q, k, v) -> Peer:
    """One forced backend, entered once per call as a user would, and tried before it is offered."""
    import contextlib

    import torch.nn.functional as F
    from torch.nn.attention import sdpa_kernel

    if options.softcap or options.sinks is not None:
        return Peer(name, None, f"no {' '.join(case.options)} in F.scaled_dot_product_attention")
    if case.causal_flag is None:
        return Peer(name, None, "no bottom-right flag in F.scaled_dot_product_attention")
    arguments = {"is_causal": case.causal_flag}
    if options.scale is not None:
        arguments["scale"] = options.scale
    if options.left is not None or options.spec or options.lengths is not None or options.alibi is not None:
        try:
            arguments |= {"is_causal": False, "attn_mask": sdpa_mask(case, options, q.device.type)}
        except (RuntimeError, ValueError) as error:
            return Peer(name, None, str(error).split("\n")[0])
    if case.heads != case.kv_heads:
        arguments["enable_gqa"] = True

    def call():
        with sdpa_kernel(backends) if backends else contextlib.nullcontext():
            return F.scaled_dot_product_attention(q, k, v, **arguments)

    try:
        call()
    except (RuntimeError, TypeError) as error:
        return Peer(name, None, str(error).strip().split("\n")[0])
    return Peer(name, call)


FLEX = "FlexAttention"


def flex_score(case, options):
    """FlexAttention's score_mod for softcap, ALiBi and an additive mask, or None. Scores come to it scaled."""
    import torch

    additive = options.spec is not None and not options.spec.boolean
    if not (options.softcap or options.alibi is not None or additive):
        return None
    offset = case.keys - case.queries if options.align == "bottom-right" else 0

    def score(s, b, h, i, j):
        if options.softcap:
            s = options.softcap * torch.tanh(s / options.softcap)
        if options.alibi is not None:
            s = s - slope_at(options, b, h) * (i + offset - j).abs()
        return s + at_index(options.mask, b, h, i, j) if additive else s

    return score


def flex_peer(case, options, q, k, v, device: str) -> Peer:
    """torch.nn.attention.flex_attention compiled by torch.compile; its block mask is made beforehand, as its users do."""
    if device != "cuda" or case.group != "costs":
        return Peer(FLEX, None, "asked for the costs of options on CUDA only")
    if options.alibi is not None and options.lengths is not None:
        return Peer(FLEX, None, "positions that depend on lengths are not written here")
    try:
        import torch
        from torch.nn.attention import flex_attention as flex

        torch._dynamo.reset()
        seen = options.align or options.lengths is not None or (options.spec and options.spec.content != "bias")
        blocks = None
        if seen:
            entries = options.lengths is not None or (options.spec and options.spec.real[0])
            heads = options.spec and options.spec.real[1]
            blocks = flex.create_block_mask(
                lambda b, h, i, j: visible(case, options, b, h, i, j), case.batch if entries else None,
                case.heads if heads else None, case.queries, case.keys, device=device)  # fmt: skip
        arguments = {"score_mod": flex_score(case, options), "block_mask": blocks, "scale": options.scale,
                     "enable_gqa": case.heads != case.kv_heads}  # fmt: skip

        def attend(q, k, v):
            if options.sinks is None:
                return flex.flex_attention(q, k, v, **arguments)
            out, lse = flex.flex_attention(q, k, v, return_lse=True, **arguments)
            return out * torch.sigmoid(lse - options.sinks[:, None])[..., None].to(out.dtype)

        compiled = torch.compile(attend, dynamic=False)
        compiled(q, k, v)
    except Exception as error:  # Triton, Inductor and the driver each have their own
        return Peer(FLEX, None, (str(error).strip() or repr(error)).split("\n")[0][:200])
    return Peer(FLEX, lambda: compiled(q, k, v))
