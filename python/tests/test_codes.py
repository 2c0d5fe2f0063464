"""attend() on 8-bit floats: against the float64 oracle of the numbers that codes and scales stand for."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import reference
import tessera
from conftest import need

FORMATS = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
SHAPE = (2, 4, 2, 131, 150, 48, 40)  # batch, heads, K/V heads, queries, keys, dim, value dim


def codes(dtype, seed=0, shape=SHAPE):
    return tuple(a.astype(dtype) for a in reference.random_inputs(seed, *shape))


def scales(rng, tensor, kind, rows=64):
    """Of a tensor [outer, heads, rows, dim], a shape for each kind that attend() takes."""
    outer, heads, length, dim = tensor.shape
    blocks = -(-length // rows)
    shape = {
        "tensor": (1, 1, 1, 1),
        "head": (outer, heads, 1, 1),
        "shared head": (1, heads, 1, 1),
        "block": (outer, heads, blocks, 1),
        "channel": (outer, heads, 1, dim),
    }[kind]
    return (0.25 + rng.random(shape)).astype(np.float32)


def numbers(tensor, scale, rows=64):
    """In float64, what the library defines: code * scales[o, h, r / rows, 0 or d]."""
    if scale.shape[2] > 1:
        scale = np.repeat(scale, rows, axis=2)[:, :, : tensor.shape[2]]
    return tensor.astype(np.float64) * scale.astype(np.float64)


KINDS = [("tensor", "tensor"), ("head", "channel"), ("shared head", "head"), ("block", "block"), ("block", "channel")]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("kinds", KINDS)
def test_matches_the_oracle(dtype, rows, kinds):
    q, k, v = codes(dtype)
    rng = np.random.default_rng(1)
    sq, sk, sv = scales(rng, q, kinds[0], rows), scales(rng, k, kinds[0], rows), scales(rng, v, kinds[1], rows)
    options = {"query_scales": sq, "key_scales": sk, "value_scales": sv, "scale_rows": rows}
    wide = numbers(q, sq, rows), numbers(k, sk, rows), numbers(v, sv, rows)
    out, lse = tessera.attend(q, k, v, return_lse=True, output_dtype="float32", causal="bottom-right", **options)
    reference.check(out, *wide, lse=lse, dtype=np.float32, causal="bottom-right")
    fast = tessera.attend(q, k, v, precision="fast", output_dtype=np.float32, causal="bottom-right", **options)
    assert np.abs(fast - out).max() < 0.1 * np.abs(out).max()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_output_dtypes(dtype):
    q, k, v = codes(FORMATS[0])
    wide = [t.astype(np.float64) for t in (q, k, v)]
    named = tessera.attend(q, k, v, output_dtype=np.dtype(dtype).name)
    reference.check(named, *wide, dtype=dtype)
    assert np.array_equal(tessera.attend(q, k, v, output_dtype=dtype), named)
    given = np.empty(named.shape, dtype)
    assert tessera.attend(q, k, v, out=given) is given and np.array_equal(given, named)


def test_the_output_is_float16_unless_asked_otherwise():
    q, k, v = codes(FORMATS[1])
    out = tessera.attend(q, k, v)
    reference.check(out, *(t.astype(np.float64) for t in (q, k, v)), dtype=np.float16)
    assert tessera.plan(q, k, v)["kernel"]


def test_the_output_keeps_the_order_of_q():
    q, k, v = codes(FORMATS[0])
    rows_first = np.ascontiguousarray(q.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    out = tessera.attend(rows_first, k, v)
    assert out.transpose(0, 2, 1, 3).flags.c_contiguous
    assert np.array_equal(out, tessera.attend(q, k, v))


def test_float32_output_beside_16_bits():
    q, k, v = reference.random_inputs(3, 1, 2, 2, 9, 17, 32, dtype=np.float16)
    out = tessera.attend(q, k, v, output_dtype="float32")
    reference.check(out, q, k, v, dtype=np.float32)


@pytest.mark.parametrize("dtype", FORMATS)
def test_transposed_values(dtype):
    q, k, v = codes(dtype)
    columns = np.ascontiguousarray(v.swapaxes(2, 3)).swapaxes(2, 3)
    assert columns.strides[2] == 1
    scale = scales(np.random.default_rng(2), v, "channel")
    assert np.array_equal(
        tessera.attend(q, k, columns, value_scales=scale), tessera.attend(q, k, v, value_scales=scale)
    )


def test_numpy_scalars_are_numbers_of_their_own():
    """A scalar has no array: the one that NumPy makes for each has to live as long as the call."""
    q, k, v = codes(ml_dtypes.float8_e4m3fn)
    given = [np.float32(x) for x in (0.5, 2, 3)]
    arrays = [np.full((1, 1, 1, 1), x) for x in given]
    names = ("query_scales", "key_scales", "value_scales")
    out = tessera.attend(q, k, v, **dict(zip(names, given)))
    np.testing.assert_array_equal(out, tessera.attend(q, k, v, **dict(zip(names, arrays))))


def test_one_number_scales_a_tensor_in_any_shape():
    q, k, v = codes(FORMATS[0])
    want = tessera.attend(q, k, v, key_scales=np.full((1, 1, 1, 1), 0.5, np.float32))
    for half in (np.full((), 0.5, np.float32), np.full(1, 0.5, np.float32), np.full((1, 1), 0.5, np.float32)):
        assert np.array_equal(tessera.attend(q, k, v, key_scales=half), want)


def test_other_options_go_with_it():
    q, k, v = codes(FORMATS[0], shape=(1, 4, 2, 23, 41, 32))
    mask = np.random.default_rng(4).random((23, 41)) > 0.4
    options = {"mask": mask, "softcap": 3.0, "sinks": np.float32([0, 1, -3, 2]), "scale": 0.3}
    out = tessera.attend(q, k, v, output_dtype="float32", **options)
    reference.check(out, *(t.astype(np.float64) for t in (q, k, v)), dtype=np.float32, **options)


CACHES = [*FORMATS, np.int8]


def cache(dtype, seed=6, wide=np.float32):
    """A query as it is, keys and values as codes."""
    q, k, v = reference.random_inputs(seed, 2, 4, 2, 23, 150, 48, dtype=wide)
    if dtype == np.int8:
        return q, *(np.clip(np.rint(40 * t.astype(np.float32)), -128, 127).astype(np.int8) for t in (k, v))
    return q, k.astype(dtype), v.astype(dtype)


@pytest.mark.parametrize("wide", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("dtype", CACHES)
def test_a_cache_beside_a_wider_query(dtype, wide):
    q, k, v = cache(dtype, wide=wide)
    rng = np.random.default_rng(5)
    for kind in ("tensor", "head", "block", "channel"):
        sk, sv = scales(rng, k, "head" if kind == "channel" else kind), scales(rng, v, kind)
        sk, sv = sk / np.float32(32), sv / np.float32(32)
        options = {"key_scales": sk, "value_scales": sv, "scale_rows": 64, "causal": "bottom-right"}
        out, lse = tessera.attend(q, k, v, return_lse=True, **options)
        exact = q.astype(np.float64), numbers(k, sk), numbers(v, sv)
        reference.check(out, *exact, lse=lse, dtype=wide, causal="bottom-right")
        assert tessera.attend(q, k, v, output_dtype="float32", **options).dtype == np.float32
    assert tessera.attend(q, k, v).dtype == q.dtype


@pytest.mark.parametrize("kind", ["head", "channel"])
def test_a_quantised_cache_in_int8(kind):
    q, k, v = reference.random_inputs(7, 1, 4, 2, 5, 130, 64, dtype=np.float32)
    k8, sk = tessera.quantise(k, "int8", scales="head")
    v8, sv = tessera.quantise(v, np.int8, scales=kind)
    assert k8.dtype == np.int8 and v8.dtype == np.int8 and np.abs(k8).max() == 127
    out = tessera.attend(q, k8, v8, key_scales=sk, value_scales=sv)
    assert np.abs(out - tessera.attend(q, k, v)).max() < 0.05


ONES = np.ones((1, 1, 1, 1), np.float32)
REFUSALS = {
    "rows": ({"scale_rows": 32}, ValueError, "scale_rows is 32; accepted: 0"),
    "rows truth": ({"scale_rows": True}, ValueError, "scale_rows is True"),
    "rows text": ({"scale_rows": "many"}, ValueError, "scale_rows is 'many'"),
    "precision": ({"precision": "best"}, ValueError, "precision is 'best'; 'accurate' or 'fast'"),
    "precision number": ({"precision": 1}, ValueError, "precision is 1"),
    "channels of keys": ({"key_scales": np.ones((1, 1, 1, 48), np.float32)}, ValueError, r"key_scales.shape\[3\] is 48"),
    "blocks": ({"query_scales": np.ones((1, 1, 2, 1), np.float32), "scale_rows": 64}, ValueError, "1 or 3"),
    "dtype of scales": ({"value_scales": ONES.astype(np.float16)}, ValueError, "value_scales.dtype is f16"),
    "scales": ({"value_scales": 2.0}, TypeError, "value_scales is a float"),
    "output name": ({"output_dtype": "float64"}, ValueError, "output_dtype is 'float64'"),
    "output dtype": ({"output_dtype": np.float64}, TypeError, "out has dtype float64"),
    "output codes": ({"output_dtype": FORMATS[0]}, ValueError, "output.dtype is f8e4m3; accepted: f32, f16, bf16"),
    "both": ({"output_dtype": "float16", "out": np.empty(1)}, ValueError, "output_dtype is given beside out"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    options, exception, sentence = REFUSALS[name]
    with pytest.raises(exception, match=sentence):
        tessera.attend(*codes(FORMATS[0]), **options)


def test_scales_beside_wider_inputs_are_refused():
    q, k, v = reference.random_inputs(5, 1, 1, 1, 4, 4, 8)
    with pytest.raises(ValueError, match="query_scales is set, but query.dtype is f32"):
        tessera.attend(q, k, v, query_scales=ONES)
    with pytest.raises(ValueError, match="output.dtype is f16, but query.dtype is f32"):
        tessera.attend(q, k, v, output_dtype="float16")
    with pytest.raises(TypeError, match="q has dtype uint8"):
        tessera.attend(*(t.astype(np.uint8) for t in (q, k, v)))


def test_jax():
    jax = need("jax")
    jnp = jax.numpy
    q, k, v = codes(FORMATS[0])
    rng = np.random.default_rng(6)
    options = {"key_scales": scales(rng, k, "block"), "value_scales": scales(rng, v, "channel"), "scale_rows": 64}
    want = tessera.attend(q, k, v, **options)
    x = [jnp.asarray(t) for t in (q, k, v)]
    assert np.array_equal(tessera.attend(*x, **options), want)
    inside = jax.jit(lambda q, k, v: tessera.attend(q, k, v, output_dtype=jnp.bfloat16, **options))(*x)
    assert inside.dtype == jnp.bfloat16
    scaled = tessera.attend(*x, query_scales=0.5, precision="fast")
    assert np.array_equal(scaled, tessera.attend(q, k, v, query_scales=np.float32([0.5])))
    with pytest.raises(ValueError, match="precision is 'best'"):
        tessera.attend(*x, precision="best")


@pytest.mark.parametrize("dtype", CACHES)
def test_a_cache_in_jax(dtype):
    jax = need("jax")
    q, k, v = cache(dtype)
    options = {"key_scales": np.full((1, 1, 1, 1), 1 / 32, np.float32)}
    x = [jax.numpy.asarray(t) for t in (q, k, v)]
    for given in ({}, options):
        want = tessera.attend(q, k, v, **given)
        assert np.array_equal(tessera.attend(*x, **given), want)
        assert np.array_equal(jax.jit(lambda q, k, v: tessera.attend(q, k, v, **given))(*x), want)
