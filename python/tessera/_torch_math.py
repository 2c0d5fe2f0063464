"""Attention in plain PyTorch: the definition in the C header, written out, and its gradient.

This is what the backward pass runs until Tessera has kernels for it: exact, built from differentiable
operations only (so that second derivatives exist), and slow, because it stores the scores.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ._options import ALIGN, UNBOUNDED, Options


class Inputs(NamedTuple):
    """The tensors of a call; the last four may be None."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None = None
    alibi: torch.Tensor | None = None
    sinks: torch.Tensor | None = None
    key_lengths: torch.Tensor | None = None


class _Weights(NamedTuple):
    p: torch.Tensor  # [batch, heads, queries, keys]
    lse: torch.Tensor  # [batch, heads, queries]
    dcap: torch.Tensor | None  # derivative of the softcap
    distance: torch.Tensor | None  # |p - j|, of ALiBi


def _wide(t: torch.Tensor) -> torch.Tensor:
    return t if t.dtype == torch.float64 else t.float()


def _per_query_head(t: torch.Tensor, heads: int) -> torch.Tensor:
    """[batch, kv_heads, ...] repeated so that every query head finds its own."""
    group = heads // t.shape[1]
    return t if group == 1 else t.repeat_interleave(group, dim=1)


def _positions(x: Inputs, options: Options) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query positions, key indices and key counts, shaped to broadcast over [batch, heads, queries, keys]."""
    queries, keys = x.q.shape[2], x.k.shape[2]
    device = x.q.device
    if x.key_lengths is None:
        lengths = torch.full((1, 1, 1, 1), keys, device=device)
    else:
        lengths = x.key_lengths.to(torch.int64).view(-1, 1, 1, 1)
    i = torch.arange(queries, device=device).view(1, 1, -1, 1)
    j = torch.arange(keys, device=device).view(1, 1, 1, -1)
    offset = lengths - queries if options.align == ALIGN["bottom-right"] else torch.zeros_like(lengths)
    return i + offset, j, lengths


def _weights(x: Inputs, options: Options) -> _Weights:
    scale = options.scale or x.q.shape[-1] ** -0.5
    heads = x.q.shape[1]
    s = _wide(x.q) @ _wide(_per_query_head(x.k, heads)).transpose(-1, -2) * scale
    dcap = distance = None
    if options.softcap:
        t = torch.tanh(s / options.softcap)
        s, dcap = options.softcap * t, 1 - t * t
    position, j, lengths = _positions(x, options)
    if x.alibi is not None:
        distance = (position - j).abs().to(s.dtype)
        slopes = x.alibi.to(s.dtype)
        s = s - slopes.reshape(-1 if slopes.dim() == 2 else 1, heads, 1, 1) * distance
    hidden = j >= lengths
    if options.align and options.left != UNBOUNDED:
        hidden = hidden | (j < position - options.left)
    if options.align and options.right != UNBOUNDED:
        hidden = hidden | (j > position + options.right)
    if x.mask is not None and x.mask.dtype == torch.bool:
        hidden = hidden | ~x.mask
    elif x.mask is not None:
        hidden = hidden | (x.mask == float("-inf"))  # whatever the score is, NaN included
        s = s + x.mask.to(s.dtype)
    s = s.masked_fill(hidden, float("-inf"))

    lse = torch.logsumexp(s, dim=-1)
    if x.sinks is not None:
        lse = torch.logaddexp(lse, x.sinks.to(s.dtype).view(1, -1, 1).expand_as(lse))
    # A row that sees nothing has lse = -inf; any finite number in its place gives it weights of 0.
    p = torch.exp(s - lse.masked_fill(lse == float("-inf"), 0.0).unsqueeze(-1))
    return _Weights(p, lse, dcap, distance)


def forward(x: Inputs, options: Options) -> tuple[torch.Tensor, torch.Tensor]:
    """(output, lse), in float32, or float64 for float64 inputs."""
    w = _weights(x, options)
    return w.p @ _wide(_per_query_head(x.v, x.q.shape[1])), w.lse


def _sum_groups(grad: torch.Tensor, kv_heads: int) -> torch.Tensor:
    batch, heads = grad.shape[:2]
    if heads == kv_heads:
        return grad
    return grad.view(batch, kv_heads, heads // kv_heads, *grad.shape[2:]).sum(dim=2)


def backward(
    x: Inputs, options: Options, grad_output: torch.Tensor, grad_lse: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of q, k, v, mask, alibi and sinks, in their own dtypes; None where there is none to have.

    With o = P v, P = exp(s - lse):  dP = dO vᵀ,  dS = P ∘ (dP - rowsum(P ∘ dP) + dlse), and the rest is
    the chain rule. A sink is a key whose value is 0, so its dP is 0.
    """
    w = _weights(x, options)
    heads, kv_heads = x.q.shape[1], x.k.shape[1]
    scale = options.scale or x.q.shape[-1] ** -0.5
    k, v = (_wide(_per_query_head(t, heads)) for t in (x.k, x.v))
    grad_output = grad_output.to(w.p.dtype)

    grad_p = grad_output @ v.transpose(-1, -2)
    delta = (w.p * grad_p).sum(dim=-1)
    if grad_lse is not None:
        delta = delta - grad_lse.to(w.p.dtype)
    grad_s = w.p * (grad_p - delta.unsqueeze(-1))

    grad_mask = grad_alibi = grad_sinks = None
    if x.mask is not None and x.mask.dtype.is_floating_point and x.mask.requires_grad:
        grad_mask = grad_s.sum_to_size(x.mask.shape).to(x.mask.dtype)
    if x.alibi is not None and x.alibi.requires_grad:
        per_head = -(grad_s * w.distance).sum(dim=(-1, -2))
        grad_alibi = per_head.sum_to_size(x.alibi.shape).to(x.alibi.dtype)
    if x.sinks is not None and x.sinks.requires_grad:
        p_sink = torch.exp(x.sinks.to(w.p.dtype).view(1, -1, 1) - w.lse)
        grad_sinks = -(p_sink * delta).sum(dim=(0, 2)).to(x.sinks.dtype)

    grad_s = scale * (grad_s if w.dcap is None else grad_s * w.dcap)
    grad_q = (grad_s @ k).to(x.q.dtype)
    grad_k = _sum_groups(grad_s.transpose(-1, -2) @ _wide(x.q), kv_heads).to(x.k.dtype)
    grad_v = _sum_groups(w.p.transpose(-1, -2) @ grad_output, kv_heads).to(x.v.dtype)
    return grad_q, grad_k, grad_v, grad_mask, grad_alibi, grad_sinks
