"""The operators `tessera::append` and `tessera::turned`: attend(new_key=...), attend(rope=...) and
attend(key_tail=...) in graphs.

A schema cannot depend on what is given, so there are two: `append` writes to k, v and key_tail, and says so; `turned`
has no new rows, and writes nothing. Neither has a gradient.
"""

from __future__ import annotations

import torch

from . import _append, _binding
from ._options import align_of, parse
from ._torch_ops import _ALIGN_NAMES, _attend_fake, _library, _mask_rows, _register, _rows

_REST = (
    "Tensor? new_key, Tensor? new_value, Tensor? cos, Tensor? sin, Tensor? positions, Tensor? mask, Tensor? alibi, "
    "Tensor? sinks, Tensor? key_lengths, Tensor? query_offsets, Tensor? key_offsets, Tensor? page_table, "
    "Tensor? prior_output, Tensor? prior_lse, bool interleaved, int first, int align, int left, int right, "
    "float scale, float softcap, str kernel, int tensor_align, bool invariant, "
)
for _name, _caches, _tail in (
    ("append", "Tensor(a!) k, Tensor(b!) v", "Tensor(c!)?"),
    ("turned", "Tensor k, Tensor v", "Tensor?"),
):
    _library.define(
        f"{_name}(Tensor q, {_caches}, {_REST}{_tail} key_tail=None) -> (Tensor, Tensor)",
        tags=(torch.Tag.pt2_compliant_tag,),
    )


def _compute(
    q, k, v, new_key, new_value, cos, sin, positions, mask, alibi, sinks, key_lengths, query_offsets, key_offsets,
    page_table, prior_output, prior_lse, interleaved, first, align, left, right, scale, softcap, kernel, tensor_align,
    invariant, key_tail=None,
):  # fmt: skip
    return _binding.attend_memory(
        _rows(q), k, v,  # these and key_tail are written to: never copies
        new_key=None if new_key is None else _rows(new_key),
        new_value=None if new_value is None else _rows(new_value),
        rope=None if cos is None else _append.Rope(cos, sin, interleaved, first),
        positions=positions, mask=_mask_rows(mask), alibi=alibi, sinks=sinks, key_lengths=key_lengths,
        query_offsets=query_offsets, key_offsets=key_offsets, page_table=page_table,
        prior=None if prior_output is None else (prior_output, prior_lse),
        window=(None if left < 0 else left, None if right < 0 else right, _ALIGN_NAMES[align]) if align else None,
        scale=scale or None, softcap=softcap or None, kernel=kernel or None, mask_align=_ALIGN_NAMES[tensor_align],
        invariant=invariant, return_lse=True, key_tail=key_tail,
    )  # fmt: skip


_operators = {name: _register(name, _compute, _attend_fake) for name in ("append", "turned")}
for _name in _operators:
    _library.impl(_name, torch.library.fallthrough_kernel, "Autograd")


def attend(
    q, k, v, *, new_key, new_value, rope, positions, mask, causal, window, scale, softcap, alibi, sinks, key_lengths,
    kernel, query_offsets, key_offsets, page_table, prior, mask_align, invariant, key_tail=None,
):  # fmt: skip
    """(output, lse), as one node of a graph."""
    options = parse(
        causal, window, scale, softcap, kernel, queries=q.shape[-2], keys=k.shape[-2],
        has_lengths=any(t is not None for t in (key_lengths, query_offsets, key_offsets)),
    )  # fmt: skip
    cos, sin, interleaved, first = (None, None, False, 0) if rope is None else _append.split(rope)
    prior_output, prior_lse = prior or (None, None)
    operator = _operators["turned" if new_key is None else "append"]
    return operator(
        q, k, v, new_key, new_value, cos, sin, positions, mask, alibi, sinks, key_lengths, query_offsets, key_offsets,
        page_table, prior_output, prior_lse, interleaved, first, *options, align_of(mask_align, "mask_align"),
        bool(invariant), key_tail,
    )  # fmt: skip
