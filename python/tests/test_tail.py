"""attend() with keys in two arrays: k has the first columns, key_tail the others, in q's dtype."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tessera
from appending import Cache, assert_same_bits, tables
from conftest import need

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def drawn(*shape, dtype=np.float32):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32).astype(dtype)


def cut(keys, tail):
    """A cache of whole keys as two."""
    return np.ascontiguousarray(keys[..., :-tail]), np.ascontiguousarray(keys[..., -tail:])


def reference(q, k, v, **options):
    return tessera.attend(*(t.astype(np.float32) for t in (q, k, v)), **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tail", [1, 7, 16])
def test_a_key_in_two_is_the_key(tail, dtype):
    q, k, v = drawn(2, 4, 5, 24, dtype=dtype), drawn(2, 2, 40, 24, dtype=dtype), drawn(2, 2, 40, 16, dtype=dtype)
    first, last = cut(k, tail)
    out = tessera.attend(q, first, v, key_tail=last, causal="bottom-right")
    want = reference(q, k, v, causal="bottom-right")
    np.testing.assert_allclose(out.astype(np.float32), want, atol=2e-6 if dtype == np.float32 else 2e-2)


def test_only_the_tail_decides():
    q = np.ones((1, 1, 1, 3), np.float32)
    k, v = np.zeros((1, 1, 4, 2), np.int8), np.int8([1, 2, 3, 4]).reshape(1, 1, 4, 1)
    tail = np.float32([0, 0, 200, 0]).reshape(1, 1, 4, 1)
    out, lse = tessera.attend(q, k, v, key_tail=tail, scale=1, return_lse=True)
    assert out.item() == 3 and lse.item() == 200


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("codes", [ml_dtypes.float8_e4m3fn, np.int8])
def test_codes_are_scaled_and_the_tail_is_not(codes, dtype):
    """Beside the numbers that the codes stand for."""
    q, tail = drawn(2, 4, 3, 40, dtype=dtype), drawn(2, 1, 50, 8, dtype=dtype)
    k, v = ((40 * drawn(2, 1, 50, d)).astype(codes) for d in (32, 16))
    out = tessera.attend(q, k, v, key_tail=tail, key_scales=np.float32(0.02), value_scales=np.float32(0.03))
    whole = np.concatenate([k.astype(np.float32) * np.float32(0.02), tail.astype(np.float32)], axis=-1)
    want = reference(q, whole, v.astype(np.float32) * np.float32(0.03))
    np.testing.assert_allclose(out.astype(np.float32), want, atol=1e-5 if dtype == np.float32 else 2e-2)


@pytest.mark.parametrize("page", [None, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_new_keys_go_to_both(page, dtype):
    """The bits of one cache, cut in two; pairs of the rope lie in one part, in the other, and in both."""
    cos, sin = tables(64, 8)
    for first in (0, 12, 16):
        cache = Cache([20, 9], [3, 3], page=page, dtype=dtype)
        how = {"interleaved": True, "first": first}
        q, k, v = cache.by_hand(cos, sin, **how)
        one, two = cut(cache.k, 11)
        out = tessera.attend(
            cache.q, one, cache.v, key_tail=two, causal="bottom-right", new_key=cache.new_key,
            new_value=cache.new_value, rope=tessera.Rope(cos, sin, **how), **cache.where,
        )  # fmt: skip
        want_one, want_two = cut(k, 11)
        assert_same_bits(one, want_one, "key")
        assert_same_bits(two, want_two, "key_tail")
        assert_same_bits(cache.v, v, "value")
        want = tessera.attend(q, want_one, v, key_tail=want_two, causal="bottom-right", **cache.where)
        assert_same_bits(out, want, "output")


def test_latent_cache_of_codes():
    """DeepSeek's: the values are the codes of the keys, the rotary part of 16 bits is the tail."""
    bf16, e4m3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
    q, new = drawn(2, 8, 1, 576, dtype=bf16), drawn(2, 1, 1, 576, dtype=bf16)
    k = (10 * drawn(4, 1, 16, 512)).astype(e4m3)
    tail = drawn(4, 1, 16, 64, dtype=bf16)
    where = {"key_lengths": np.int32([20, 7]), "page_table": np.int32([[3, 1], [0, -1]]), "causal": "bottom-right"}
    scales = {"key_scales": np.float32(0.1), "value_scales": np.float32(0.1)}
    cos, sin = tables(32, 32)
    out = tessera.attend(
        q, k, k, key_tail=tail, new_key=new, rope=tessera.Rope(cos, sin, interleaved=True, first=512), **where, **scales
    )
    stored = (new[0, 0, 0, :512].astype(np.float32) / np.float32(0.1)).astype(e4m3)
    assert_same_bits(k[1, 0, 3], stored)
    assert out.shape == (2, 8, 1, 512) and np.isfinite(out.astype(np.float32)).all()


def test_plan_and_refusals():
    q, k, tail = np.zeros((1, 1, 2, 8), np.float32), np.zeros((1, 1, 4, 5), np.float32), np.zeros((1, 1, 4, 3), np.float32)
    assert "3 of them in key_tail" in tessera.explain(q, k, k, key_tail=tail)
    assert tessera.plan(q, k, k, key_tail=tail)["kernel"].startswith("cpu_")
    with pytest.raises(tessera.InvalidArgument, match="query's head dimension is 8"):
        tessera.attend(q, k, k, key_tail=tail[..., :2])
    with pytest.raises(tessera.InvalidArgument, match="key_tail.dtype is f16"):
        tessera.attend(q, k, k, key_tail=tail.astype(np.float16))
    tail.flags.writeable = False
    tessera.attend(q, k, k, key_tail=tail)
    new = np.zeros((1, 1, 2, 8), np.float32)
    with pytest.raises(ValueError, match="key_tail is read-only, and new_key is stored in it"):
        tessera.attend(q, k, k, key_tail=tail, new_key=new, causal="bottom-right")


def test_torch():
    torch = need("torch")
    import tessera.torch

    q, k, v, tail, new = (torch.from_numpy(drawn(2, 2, n, d)) for n, d in ((1, 24), (9, 16), (9, 8), (9, 8), (1, 24)))

    def call(q, k, v, tail, new_key=None, **options):
        options |= {} if new_key is None else {"new_key": new_key, "new_value": new_key[..., :8], "causal": "bottom-right"}
        return tessera.torch.attend(q, k, v, key_tail=tail, **options)

    with torch.no_grad():
        want = call(q, k, v, tail)
        assert_same_bits(want.numpy(), tessera.attend(q.numpy(), k.numpy(), v.numpy(), key_tail=tail.numpy()))
        assert_same_bits(torch.compile(call, fullgraph=True)(q, k, v, tail).numpy(), want.numpy())
        # New keys in a graph: the operator says that it writes to the tail as well.
        eager, graph = ([t.clone() for t in (k, v, tail)] for _ in range(2))
        want = call(q, *eager, new)
        version = graph[2]._version
        got = torch.compile(call, fullgraph=True)(q, *graph, new)
        assert_same_bits(got.numpy(), want.numpy())
        for one, two in zip(graph, eager):
            assert_same_bits(one.numpy(), two.numpy())
        assert graph[2]._version > version and not torch.equal(graph[2], tail)
        torch.library.opcheck(
            torch.ops.tessera.append.default,
            (q, *(t.clone() for t in (k, v)), new, new[..., :8].contiguous(), *[None] * 12, False, 0, 2, -1, 0, 0.0, 0.0, "", 0, False),
            {"key_tail": tail.clone()}, test_utils=("test_schema", "test_faketensor"),
        )  # fmt: skip
    tail.requires_grad_()
    with pytest.raises(ValueError, match="key_tail= has no gradient"):
        tessera.attend(q, k, v, key_tail=tail)


def test_jax():
    jax = need("jax")
    import tessera.jax

    q, k, v, tail, new = (drawn(2, 2, n, d) for n, d in ((1, 24), (9, 16), (9, 8), (9, 8), (1, 24)))
    want = tessera.attend(q, k, v, key_tail=tail)
    assert_same_bits(np.asarray(jax.jit(lambda *t: tessera.jax.attend(*t[:3], key_tail=t[3]))(q, k, v, tail)), want)
    options = {"causal": "bottom-right"}
    step = jax.jit(
        lambda q, k, v, tail, new: tessera.jax.attend(
            q, k, v, key_tail=tail, new_key=new, new_value=new[..., :8], return_lse=True, **options
        ),
        donate_argnums=(1, 2, 3),
    )
    results = step(*(jax.numpy.asarray(t) for t in (q, k, v, tail, new)))
    out = tessera.attend(q, k, v, key_tail=tail, new_key=new, new_value=new[..., :8], return_lse=True, **options)
    for got, expected in zip(results, (*out, k, v, tail), strict=True):
        assert_same_bits(np.asarray(got), expected)
    # Latent: the values are the keys, and the caches come back as (k, k, tail).
    latent = tessera.jax.attend(jax.numpy.asarray(q), *[jax.numpy.asarray(k)] * 2, key_tail=tail)
    assert latent.shape == (2, 2, 1, 16)
    k_array = jax.numpy.asarray(k)
    output, one, two, three = tessera.jax.attend(q, k_array, k_array, key_tail=tail, new_key=new, **options)
    assert_same_bits(np.asarray(output), tessera.attend(q, k, k, key_tail=tail, new_key=new, **options))
    assert_same_bits(np.asarray(one), k)
    assert_same_bits(np.asarray(two), k)
    assert_same_bits(np.asarray(three), tail)
