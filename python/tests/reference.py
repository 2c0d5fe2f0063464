"""The judges of these tests, in NumPy alone and sharing nothing with the library.

attend() is the definition in tessera.h in float64; plain() the same formula in float32 with its result
rounded to the input's dtype. A kernel may be off by at most twice plain()'s largest error, one rounding
step of its output, and what one float32 rounding step of the terms of the scores does to the result: that
is the bound that docs/correctness.md derives. (The last term is estimated from above here, by |v - o| <=
|v| + |o|, which needs no third dimension.)
"""

from __future__ import annotations

import numpy as np

ALIGNED_RIGHT = "bottom-right"


def _positions(queries, keys, align, lengths):
    i = np.arange(queries)[None, :, None]
    return i + (lengths[:, None, None] - queries if align == ALIGNED_RIGHT else 0)


def _hidden(queries, keys, causal, window, lengths):
    """[batch, queries, keys]: True where the band or key_lengths hide a key."""
    align, left, right = causal, None, 0 if causal else None
    if window is not None:
        left, right = window[0], 0 if causal else window[1]
        align = window[2] if len(window) == 3 else causal or "top-left"
    j = np.arange(keys)[None, None, :]
    p = _positions(queries, keys, align, lengths)
    hidden = np.broadcast_to(j >= lengths[:, None, None], (len(lengths), queries, keys)).copy()
    if left is not None:
        hidden |= j < p - left
    if right is not None:
        hidden |= j > p + right
    return hidden, np.abs(p - j)


def _evaluate(q, k, v, number, *, mask=None, causal=None, window=None, scale=None, softcap=None, alibi=None,
              sinks=None, key_lengths=None):  # fmt: skip
    batch, heads, queries, dim = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    lengths = np.full(batch, keys) if key_lengths is None else np.asarray(key_lengths)
    hidden, distance = _hidden(queries, keys, causal, window, lengths)
    factor = number(dim**-0.5 if scale is None else scale)
    full_mask = None if mask is None else np.broadcast_to(mask, (batch, heads, queries, keys))
    out = np.zeros((batch, heads, queries, v.shape[3]), number)
    lse = np.full((batch, heads, queries), -np.inf, number)
    moved, moved_lse = np.zeros(out.shape), np.zeros(lse.shape)  # by a relative error of 1 in every term
    for b in range(batch):
        for h in range(heads):
            s = q[b, h].astype(number) @ k[b, h // group].astype(number).T * factor
            terms = np.abs(q[b, h].astype(number)) @ np.abs(k[b, h // group].astype(number)).T * abs(factor)
            if softcap:
                s = number(softcap) * np.tanh(s / number(softcap))
            if alibi is not None:
                slope = alibi[h] if alibi.ndim == 1 else alibi[b, h]
                bias = number(slope) * distance[b % len(distance)].astype(number)
                s, terms = s - bias, terms + np.abs(bias)
            unseen = hidden[b]
            if full_mask is not None and full_mask.dtype == bool:
                unseen = unseen | ~full_mask[b, h]
            elif full_mask is not None:
                bias = full_mask[b, h].astype(number)
                unseen = unseen | (bias == -np.inf)
                s, terms = s + bias, terms + np.where(np.isfinite(bias), np.abs(bias), 0)
            s = np.where(unseen, number(-np.inf), s)
            top = s.max(axis=1, initial=-np.inf)
            if sinks is not None:
                top = np.maximum(top, number(sinks[h]))
            top = np.where(np.isfinite(top), top, number(0))
            e = np.exp(s - top[:, None])
            total = e.sum(axis=1, dtype=number)
            if sinks is not None:
                total = total + np.exp(number(sinks[h]) - top)
            seen = total > 0
            out[b, h] = (e / np.where(seen, total, 1)[:, None]) @ v[b, h // group].astype(number)
            lse[b, h] = np.where(seen, np.log(np.where(seen, total, 1)) + top, -np.inf)
            if number is np.float64:
                weight = e / np.where(seen, total, 1)[:, None]
                movable = weight * (1 + np.where(unseen, 0, terms))
                sink = 0 if sinks is None else np.exp(float(sinks[h]) - lse[b, h]) * (1 + abs(float(sinks[h])))
                size = np.abs(v[b, h // group].astype(number))
                moved_lse[b, h] = movable.sum(axis=1) + sink
                moved[b, h] = (movable + weight) @ size + moved_lse[b, h][:, None] * np.abs(out[b, h])
    return out, lse, moved, moved_lse


def attend(q, k, v, **options):
    """(output, lse) in float64."""
    return _evaluate(q, k, v, np.float64, **options)[:2]


def plain(q, k, v, *, dtype=None, **options):
    """(output, lse) in float32, the output rounded to q's dtype, or to this one."""
    out, lse = _evaluate(q, k, v, np.float32, **options)[:2]
    return out.astype(dtype or q.dtype), lse


def _rounding_step(values, dtype):
    """The gap between neighbouring numbers of the dtype at each value."""
    digits, least = {"float32": (23, -126), "float16": (10, -14), "bfloat16": (7, -126)}[str(np.dtype(dtype))]
    exponent = np.floor(np.log2(np.maximum(np.abs(values), 2.0**least)))
    return 2.0 ** (exponent - digits)


def check(output, q, k, v, *, lse=None, where="", dtype=None, **options):
    """Fails unless output (and lse) lie within the derived bound of the oracle; returns the oracle's output."""
    truth, true_lse, moved, moved_lse = _evaluate(q, k, v, np.float64, **options)
    dtype = np.dtype(dtype or q.dtype)  # of the output
    yardstick, yardstick_lse = plain(q, k, v, dtype=dtype, **options)
    assert output.shape == truth.shape, (output.shape, truth.shape)
    assert output.dtype == dtype
    _within(output, truth, yardstick, moved, dtype, f"output {where}")
    if lse is not None:
        assert lse.dtype == np.float32
        _within(lse, true_lse, yardstick_lse, moved_lse, np.float32, f"lse {where}")
    return truth


def _within(got, truth, yardstick, moved, dtype, what):
    got, yardstick = np.asarray(got, np.float64), np.asarray(yardstick, np.float64)
    assert np.array_equal(np.isfinite(got), np.isfinite(truth)), f"{what}: inf or NaN in other places"
    finite = np.isfinite(truth)
    if not finite.any():
        return
    got, truth, yardstick, moved = got[finite], truth[finite], yardstick[finite], moved[finite]
    allowed = 2 * np.abs(yardstick - truth).max() + _rounding_step(truth, dtype) + 2.0**-23 * moved
    error = np.abs(got - truth)
    worst = np.argmax(error / allowed)
    assert np.all(error <= allowed), (
        f"{what}: error {error[worst]:.3g} where {allowed[worst]:.3g} is allowed (value {truth[worst]:.6g})"
    )


def random_inputs(seed, batch, heads, kv_heads, queries, keys, dim, value_dim=None, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shapes = ((batch, heads, queries, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, value_dim or dim))
    return tuple(rng.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in shapes)
