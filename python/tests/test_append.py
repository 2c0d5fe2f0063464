"""attend() that stores new keys and values and turns by RoPE, on NumPy arrays: stored rows have the bits of plain code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tessera
from appending import Cache, assert_same_bits, tables, turn
from conftest import need

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]
BATCHES = {
    "decode": ([9, 6, 1], [1, 1, 1], None),
    "chunks": ([9, 6, 4], [4, 4, 4], None),
    "first rows": ([2, 4], [4, 4], None),  # two rows would stand before key 0
    "pages": ([40, 17, 5, 3, 0], [1, 3, 5, 7, 2], 16),
    "pages of one row": ([9, 6], [2, 3], 1),
}
# How many pairs, and how they lie in 32 dimensions.
TURNS = {
    "no rope": None,
    "halves": (16, {}),
    "interleaved": (16, {"interleaved": True}),
    "partial": (5, {}),
    "last dimensions": (4, {"interleaved": True, "first": 24}),
}


def check(cache, turns, positions=None, **options):
    """One call against the same attention over what plain code turned and stored."""
    pairs, how = turns or (0, {})
    cos, sin = tables(64, pairs) if pairs else (None, None)
    q, k, v = cache.by_hand(cos, sin, positions, **how)
    call = {} if cos is None else {"rope": tessera.Rope(cos, sin, **how)}
    call |= {} if positions is None else {"positions": positions}
    given = cache.q.copy()
    out, lse = tessera.attend(
        cache.q, cache.k, cache.v, causal="bottom-right", new_key=cache.new_key, new_value=cache.new_value,
        return_lse=True, **cache.where, **call, **options,
    )  # fmt: skip
    assert_same_bits(cache.q, given, "the query stays as it is")
    assert_same_bits(cache.k, k, "stored keys")
    assert_same_bits(cache.v, v, "stored values")
    want, want_lse = tessera.attend(q, k, v, causal="bottom-right", return_lse=True, **cache.where, **options)
    assert_same_bits(out, want, "output")
    assert_same_bits(lse, want_lse, "lse")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("batch", BATCHES)
def test_stored_rows_and_results(batch, turns, dtype):
    lengths, rows, page = BATCHES[batch]
    check(Cache(lengths, rows, page=page, dtype=dtype), TURNS[turns])


@pytest.mark.parametrize("page", [None, 16])
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_positions_of_a_tree(page, integer):
    """Drafts whose depth is not their place: five rows, each the child of row (i - 1) // 2."""
    cache = Cache([20, 9], [5, 5], page=page)
    depth = np.array([0, 1, 1, 2, 2])
    positions = np.stack([15 + depth, 4 + depth]).astype(integer)
    tree = np.zeros((5, 5), bool)
    for i in range(5):
        tree[i, [i, (i - 1) // 2 if i else 0, 0]] = True
    mask = tree if page is None else np.concatenate([tree, tree])
    check(cache, (16, {}), positions if page is None else positions.reshape(-1), mask=mask, mask_align="bottom-right")


def test_a_pair_is_halves_and_a_rope_may_be_a_list():
    cos, sin = tables(64, 16)
    results = []
    for rope in ((cos, sin), [cos, sin], tessera.Rope(cos, sin)):
        cache = Cache([9, 6], [1, 1])
        results.append(tessera.attend(cache.q, cache.k, cache.v, causal="bottom-right", new_key=cache.new_key,
                                      new_value=cache.new_value, rope=rope, **cache.where))  # fmt: skip
    assert_same_bits(results[0], results[1])
    assert_same_bits(results[0], results[2])
    assert "interleaved=False, first=0" in repr(tessera.Rope(cos, sin))


def test_rope_alone_turns_the_query_and_stores_nothing():
    cache = Cache([9, 6], [2, 2])
    cos, sin = tables(64, 16)
    _, k, v = cache.by_hand()
    before = k.copy(), v.copy()
    out = tessera.attend(cache.q, k, v, causal="bottom-right", rope=(cos, sin), **cache.where)
    q = cache.by_hand(cos, sin)[0]
    assert_same_bits(out, tessera.attend(q, k, v, causal="bottom-right", **cache.where))
    assert_same_bits(k, before[0])
    # Positions need no alignment.
    places = np.int32([[3, 1], [2, 2]])
    out = tessera.attend(cache.q, k, v, rope=(cos, sin), positions=places, **cache.where)
    q = np.stack([turn(cache.q[b], places[b], cos, sin) for b in range(2)])
    assert_same_bits(out, tessera.attend(q, k, v, **cache.where))


@pytest.mark.parametrize("dtype", DTYPES)
def test_latent_attention(dtype):
    """Values are the first dimensions of the keys, whose last ones are turned: nothing but new_key is stored."""
    cache = Cache([40, 17, 5], [1, 3, 5], kv_heads=1, dim=48, page=16, dtype=dtype)
    cos, sin = tables(64, 8)
    how = {"interleaved": True, "first": 32}
    q, k, _ = cache.by_hand(cos, sin, **how)
    out = tessera.attend(cache.q, cache.k, cache.k[..., :32], causal="bottom-right", new_key=cache.new_key,
                         rope=tessera.Rope(cos, sin, **how), **cache.where)  # fmt: skip
    assert_same_bits(cache.k, k)
    assert_same_bits(out, tessera.attend(q, k, k[..., :32], causal="bottom-right", **cache.where))


def test_tables_may_be_part_of_wider_ones():
    cache, again = Cache([9, 6], [1, 1]), Cache([9, 6], [1, 1])
    cos, sin = tables(64, 16)
    wide = np.concatenate([cos, sin], axis=1)  # side by side, as some models keep them
    for one, rope in ((cache, (cos, sin)), (again, (wide[:, :16], wide[:, 16:]))):
        tessera.attend(one.q, one.k, one.v, causal="bottom-right", new_key=one.new_key, new_value=one.new_value,
                       rope=rope, **one.where)  # fmt: skip
    assert_same_bits(cache.k, again.k)


def test_a_decode_loop_is_a_prefill():
    """Row by row into the cache gives the keys that all rows at once give."""
    whole, steps = Cache([12, 12], [12, 12]), Cache([12, 12], [12, 12])
    cos, sin = tables(64, 16)
    options = {"causal": "bottom-right", "rope": (cos, sin)}
    want = tessera.attend(whole.q, whole.k, whole.v, new_key=whole.new_key, new_value=whole.new_value, **options, **whole.where)
    for i in range(12):
        row = np.s_[:, :, i : i + 1]
        out = tessera.attend(steps.q[row], steps.k, steps.v, new_key=steps.new_key[row], new_value=steps.new_value[row],
                             key_lengths=np.int32([i + 1] * 2), **options)  # fmt: skip
        np.testing.assert_allclose(out, want[row], rtol=1e-5, atol=1e-6)
    assert_same_bits(steps.k, whole.k)
    assert_same_bits(steps.v, whole.v)


@pytest.mark.parametrize("what", ["new_key", "new_value"])
def test_new_rows_of_8_bits_are_stored_as_they_are(what):
    cache = Cache([9, 6], [1, 1], dtype=ml_dtypes.float8_e4m3fn)
    _, k, v = cache.by_hand()
    tessera.attend(cache.q, cache.k, cache.v, causal="bottom-right", new_key=cache.new_key, new_value=cache.new_value,
                   **cache.where)  # fmt: skip
    assert_same_bits(*((cache.k, k) if what == "new_key" else (cache.v, v)))


def test_plans_write_nothing():
    cache = Cache([9, 6], [1, 1])
    before = cache.k.copy()
    cos, sin = tables(64, 16)
    call = {"causal": "bottom-right", "new_key": cache.new_key, "new_value": cache.new_value, "rope": (cos, sin)}
    plan = tessera.plan(cache.q, cache.k, cache.v, workspace=True, **call, **cache.where)
    assert plan["workspace_bytes"] >= cache.q.nbytes
    assert "queries are turned" in tessera.explain(cache.q, cache.k, cache.v, **call, **cache.where)
    cache.k.flags.writeable = False  # which a plan does not mind
    assert tessera.plan(cache.q, cache.k, cache.v, **call, **cache.where)["kernel"]
    cache.k.flags.writeable = True
    assert_same_bits(cache.k, before)
    # And a workspace of that size serves.
    scratch = np.empty(plan["workspace_bytes"] + 255, np.uint8)
    _, k, _ = cache.by_hand(cos, sin)
    tessera.attend(cache.q, cache.k, cache.v, workspace=scratch, **call, **cache.where)
    assert_same_bits(cache.k, k)


def refusals():
    cos, sin = tables(64, 16)
    cache = Cache([9, 6], [1, 1])
    rows = {"new_key": cache.new_key, "new_value": cache.new_value}
    return {
        "no alignment": (rows | {"causal": None}, r"new_key needs mask.align = bottom-right .*; mask.align is what causal= says"),
        "top-left": (rows | {"causal": "top-left"}, r"new_key needs mask.align = bottom-right"),
        "value alone": ({"new_value": cache.new_value}, "new_value is set and new_key is not"),
        "key alone": ({"new_key": cache.new_key}, "new_value is not: that is accepted where value.data is key.data"),
        "too few rows": ({"new_key": cache.new_key[:1], "new_value": cache.new_value}, r"new_key.shape\[0\] is 1"),
        "other dtype": ({"new_key": cache.new_key.astype(np.float16), "new_value": cache.new_value},
                        "new_key.dtype is f16; query's dtype"),
        "short tables": ({"rope": (cos[:5], sin[:5])}, "the position of the last row of entry 0 is 8; 0 to 4"),
        "double tables": ({"rope": (cos.astype(np.float64), sin)}, "rope.cos has dtype float64; .* float32 for alibi, sinks, scales and rope"),
        "half a pair": ({"rope": (cos,)}, r"rope is no pair; \(cos, sin\) or tessera.Rope"),
        "an array": ({"rope": cos}, "rope is no pair"),
        "first": ({"rope": tessera.Rope(cos, sin, first=-1)}, "rope.first is -1; a whole number"),
        "first as text": ({"rope": tessera.Rope(cos, sin, first="0")}, "rope.first is '0'"),
        "too many pairs": ({"rope": tessera.Rope(cos, sin, first=2)}, "rope.cos.shape.1. is 16 and rope.first is 2"),
        "positions alone": ({"positions": np.int32([[1], [2]])}, "positions is set, but there is no rope"),
        "positions": ({"rope": (cos, sin), "positions": np.int32([[1], [64]])}, r"positions\[1, 0\] is 64; 0 to 63"),
        "rope without a place": ({"rope": (cos, sin), "causal": None}, "rope needs mask.align = bottom-right"),
    }  # fmt: skip


REFUSALS = refusals()


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    call, sentence = REFUSALS[name]
    cache = Cache([9, 6], [1, 1])
    before = cache.k.copy()
    with pytest.raises((ValueError, TypeError), match=sentence):
        tessera.attend(cache.q, cache.k, cache.v, **{"causal": "bottom-right"} | call, **cache.where)
    assert_same_bits(cache.k, before)


@pytest.mark.parametrize("which", ["k", "v"])
def test_read_only_caches_are_refused(which):
    cache = Cache([9, 6], [1, 1])
    getattr(cache, which).flags.writeable = False
    call = {"causal": "bottom-right", "new_key": cache.new_key, "new_value": cache.new_value, **cache.where}
    with pytest.raises(ValueError, match=f"{which} is read-only, and new_(key|value) is stored in it; a writable array"):
        tessera.attend(cache.q, cache.k, cache.v, **call)


def test_a_cache_of_jax_cannot_be_written_to():
    jax = need("jax")
    cache = Cache([9, 6], [1, 1])
    k = jax.device_put(cache.k, jax.devices("cpu")[0])
    with pytest.raises(ValueError, match="k is read-only, and new_key is stored in it"):
        tessera.attend(cache.q, k, cache.v, causal="bottom-right", new_key=cache.new_key, new_value=cache.new_value,
                       **cache.where)  # fmt: skip
    assert_same_bits(np.asarray(k), cache.k)


def test_results_may_not_lie_in_the_cache():
    cache = Cache([9, 6], [1, 1], kv_heads=4)
    with pytest.raises(ValueError, match="output overlaps key|key overlaps output"):
        tessera.attend(cache.q, cache.k, cache.v, causal="bottom-right", new_key=cache.new_key, new_value=cache.new_value,
                       out=cache.k[:, :, :1], **cache.where)  # fmt: skip
