"""New rows and RoPE by hand: turns and stores in plain NumPy what attend(new_key=, rope=, ...) does on its way."""

from __future__ import annotations

import numpy as np


def tables(positions, pairs, seed=0):
    """cos and sin that no pair shares, as a model would make them."""
    frequencies = 10000.0 ** (-np.arange(pairs) / pairs) + 0.01 * seed
    angles = np.arange(positions)[:, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def turn(rows, positions, cos, sin, interleaved=False, first=0):
    """rows [..., n, dim] at positions [n]: float32, each operation rounded, then rounded to rows' dtype."""
    n = cos.shape[1]
    if interleaved:
        one, other = slice(first, first + 2 * n, 2), slice(first + 1, first + 2 * n, 2)
    else:
        one, other = slice(first, first + n), slice(first + n, first + 2 * n)
    x, y = rows[..., one].astype(np.float32), rows[..., other].astype(np.float32)
    c, s = cos[positions], sin[positions]
    turned = rows.copy()
    turned[..., one] = (x * c - y * s).astype(rows.dtype)
    turned[..., other] = (y * c + x * s).astype(rows.dtype)
    return turned


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def assert_same_bits(got, want, where=""):
    assert got.shape == want.shape and got.dtype == want.dtype, where
    np.testing.assert_array_equal(bits(got), bits(want), err_msg=where)


class Cache:
    """A batch whose entries hold so many keys each, in pages or one slot an entry, NaN where no key is.

    `lengths` counts the new rows in; `rows` is how many each entry brings, padded to one number without offsets.
    """

    def __init__(self, lengths, rows, *, heads=4, kv_heads=2, dim=32, value_dim=None, page=None, dtype=np.float32):
        rng = np.random.default_rng(7)
        draw = lambda *shape: rng.standard_normal(shape).astype(np.float32).astype(dtype)  # noqa: E731
        self.lengths, self.rows, self.page = lengths, rows, page
        ragged = page is not None
        value_dim = value_dim or dim
        lead = (1, sum(rows)) if ragged else (len(rows), rows[0])
        self.q = draw(lead[0], heads, lead[1], dim)
        self.new_key, self.new_value = (draw(lead[0], kv_heads, lead[1], d) for d in (dim, value_dim))
        self.where = {"key_lengths": np.int32(lengths)}
        if ragged:
            self.where["query_offsets"] = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
            columns = [-(-n // page) for n in lengths]
            self.table = np.full((len(lengths), max(columns)), -1, np.int32)
            free = iter(rng.permutation(sum(columns) + 1))
            for b, count in enumerate(columns):
                self.table[b, :count] = [next(free) for _ in range(count)]
            self.where["page_table"] = self.table
            pool = (sum(columns) + 1, kv_heads, page)
        else:
            pool = (len(lengths), kv_heads, max(lengths) + 3)
        self.k, self.v = np.full((*pool, dim), np.nan, dtype), np.full((*pool, value_dim), np.nan, dtype)
        for b, (length, count) in enumerate(zip(lengths, rows)):
            for at in range(max(length - count, 0)):
                for cache, d in ((self.k, dim), (self.v, value_dim)):
                    cache[self.slot(b, at)] = draw(kv_heads, d)

    def slot(self, b, at):
        """The index of key `at` of entry b in k and v."""
        if self.page is None:
            return b, slice(None), at
        return self.table[b, at // self.page], slice(None), at % self.page

    def row(self, b, i):
        """The index of row i of entry b in q and the new rows."""
        return (b, slice(None), i) if self.page is None else (0, slice(None), sum(self.rows[:b]) + i)

    def by_hand(self, cos=None, sin=None, positions=None, **how):
        """(q, k, v) with q and the new keys turned, and the new rows stored."""
        q, k, v, new_key = (t.copy() for t in (self.q, self.k, self.v, self.new_key))
        for b, (length, count) in enumerate(zip(self.lengths, self.rows)):
            for i in range(count):
                at, row = length - count + i, self.row(b, i)
                if cos is not None:
                    place = max(at, 0) if positions is None else positions[b, i] if self.page is None else positions[row[2]]
                    q[row] = turn(self.q[row], place, cos, sin, **how)
                    new_key[row] = turn(self.new_key[row], place, cos, sin, **how)
                if at >= 0:
                    k[self.slot(b, at)], v[self.slot(b, at)] = new_key[row], self.new_value[row]
        return q, k, v
