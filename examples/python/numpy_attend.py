"""Attention on NumPy arrays: one call, the options that models use, and what the library says about it.

    python examples/python/numpy_attend.py
"""

import sys

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import tessera

batch, heads, kv_heads, queries, keys, dim = 2, 8, 2, 128, 512, 64
rng = np.random.default_rng(0)
q = rng.standard_normal((batch, heads, queries, dim), dtype=np.float32)
k = rng.standard_normal((batch, kv_heads, keys, dim), dtype=np.float32)  # two K/V heads serve eight query heads
v = rng.standard_normal((batch, kv_heads, keys, dim), dtype=np.float32)

out = tessera.attend(q, k, v, causal="bottom-right")
print("output", out.shape, out.dtype)

# The same by hand, for one head: softmax over the keys that a query may see.
scores = q[0, 5] @ k[0, 1].T / np.sqrt(dim)
scores[np.arange(keys)[None, :] > np.arange(queries)[:, None] + keys - queries] = -np.inf
weights = np.exp(scores - scores.max(axis=1, keepdims=True))
by_hand = weights / weights.sum(axis=1, keepdims=True) @ v[0, 1]
print("largest difference", np.abs(out[0, 5] - by_hand).max())
assert np.allclose(out[0, 5], by_hand, atol=1e-5)

# A sliding window, attention sinks, batches of different length, and the log of the softmax denominators.
out, lse = tessera.attend(
    q,
    k,
    v,
    causal="bottom-right",
    window=255,
    sinks=np.zeros(heads, np.float32),
    key_lengths=np.array([512, 300]),
    return_lse=True,
)
print("lse", lse.shape, lse.dtype)

# No copies: any strides will do as long as the last dimension is contiguous, here [batch, rows, heads, dim].
by_rows = np.ascontiguousarray(q.transpose(0, 2, 1, 3))
same = tessera.attend(by_rows.transpose(0, 2, 1, 3), k, v)
assert np.array_equal(same, tessera.attend(q, k, v))

print()
print(tessera.explain(q, k, v, causal="bottom-right"))

try:
    tessera.attend(q, k[:, :, :, :32], v)
except tessera.InvalidArgument as error:
    print("refused:", error)
