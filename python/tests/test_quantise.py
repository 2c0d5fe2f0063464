"""quantise(): its values against NumPy's own, and what it does for attention: quantise -> attend beside float64."""

from __future__ import annotations

import sys
import types

import ml_dtypes
import numpy as np
import pytest
import reference
import tessera
from conftest import need

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
KINDS = ["tensor", "head", "block64", "block128", "channel"]


def cells(x, kind):
    """|x| largest in each cell, in the shape of the scales."""
    a = np.abs(np.asarray(x, np.float32))
    if kind == "tensor":
        return a.max(keepdims=True)
    if kind == "head":
        return a.max(axis=(2, 3), keepdims=True)
    if kind == "channel":
        return a.max(axis=2, keepdims=True)
    rows = int(kind[5:])
    starts = range(0, x.shape[2], rows)
    return np.concatenate([a[:, :, i : i + rows].max(axis=(2, 3), keepdims=True) for i in starts], axis=2)


def spread(scales, rows, kind):
    return np.repeat(scales, int(kind[5:]), axis=2)[:, :, :rows] if kind.startswith("block") else scales


def hadamard(n):
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return h / np.sqrt(n)


@pytest.mark.parametrize("name", LARGEST)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_values(name, kind, dtype):
    x = np.random.default_rng(0).standard_normal((2, 3, 150, 24)).astype(dtype)
    codes, scales = tessera.quantise(x, name, scales=kind)
    assert codes.shape == x.shape and codes.dtype == getattr(ml_dtypes, name) and scales.dtype == np.float32
    assert np.array_equal(scales, cells(x, kind) / np.float32(LARGEST[name]))
    want = (x.astype(np.float32) / spread(scales, 150, kind)).astype(codes.dtype)
    assert np.array_equal(codes.view(np.uint8), want.view(np.uint8))
    by_type, _ = tessera.quantise(x, getattr(ml_dtypes, name), scales=kind)
    assert np.array_equal(by_type.view(np.uint8), codes.view(np.uint8))


def test_transposed_smooth_and_rotated():
    x = np.random.default_rng(1).standard_normal((2, 2, 70, 32)).astype(np.float32) + np.float32(3)
    codes, scales = tessera.quantise(x)
    columns, same = tessera.quantise(x, transpose=True)
    assert columns.strides[2] == 1 and columns.shape == x.shape and np.array_equal(same, scales)
    assert np.array_equal(columns.view(np.uint8), codes.view(np.uint8))
    codes, scales, means = tessera.quantise(x, smooth=True, scales="head")
    assert np.allclose(means, x.mean(axis=2, keepdims=True), atol=1e-6)
    assert np.abs(codes.astype(np.float32) * scales + means - x).max() < 0.2
    codes, scales = tessera.quantise(x, hadamard=True, scales="block64")
    back = codes.astype(np.float64) * spread(scales, 70, "block64") @ hadamard(32)
    assert np.abs(back - x).max() < 0.5


def error(out, truth):
    """Of each row the root mean square error relative to its truth's size; the mean of all."""
    return float(np.mean(np.sqrt(np.mean((out - truth) ** 2, axis=-1) / np.mean(truth**2, axis=-1))))


def attended(q, k, v, kind, *, value_kind=None, smooth=False, rotate=False, transpose=False, **options):
    rows = int(kind[5:]) if kind.startswith("block") else 0
    cq, sq = tessera.quantise(q, scales=kind, hadamard=rotate)
    ck, sk = tessera.quantise(k, scales=kind, hadamard=rotate, smooth=smooth)[:2]
    cv, sv = tessera.quantise(v, scales=value_kind or kind, transpose=transpose)
    return tessera.attend(cq, ck, cv, query_scales=sq, key_scales=sk, value_scales=sv, scale_rows=rows,
                          output_dtype="float32", **options)  # fmt: skip


def test_finer_scales_help_where_an_outlier_leaves_the_others_no_bits():
    """An e4m3 float has its 4 bits over 15 powers of two: what lies further below the largest one loses them."""
    q, k, v = reference.random_inputs(2, 1, 4, 2, 512, 512, 64)
    v[:, :, 5] *= 2.0**20  # one token, as the first ones of a text may be
    seen = {"causal": "top-left", "window": (31, 0)}
    truth, _ = reference.attend(q, k, v, **seen)
    errors = {kind: error(attended(q, k, v, kind, **seen), truth) for kind in ("tensor", "head", "block128", "block64")}
    assert errors["block64"] < errors["block128"] < errors["head"] / 2, errors
    assert errors["head"] <= errors["tensor"] * 1.01, errors


def test_smoothing_helps_where_channels_of_k_have_a_mean():
    q, k, v = reference.random_inputs(3, 1, 2, 2, 128, 256, 64)
    k += 40 * np.random.default_rng(3).standard_normal((1, 2, 1, 64)).astype(np.float32)
    truth, true_lse = reference.attend(q, k, v)
    plain, smooth = (error(attended(q, k, v, "head", smooth=s), truth) for s in (False, True))
    assert smooth < plain / 4, (plain, smooth)
    # The formula of docs/fp8.md for the lse.
    cq, sq = tessera.quantise(q, scales="head")
    ck, sk, means = tessera.quantise(k, scales="head", smooth=True)
    _, lse = tessera.attend(cq, ck, v.astype(ml_dtypes.float8_e4m3fn), query_scales=sq, key_scales=sk, return_lse=True)
    corrected = lse + 64**-0.5 * (q * means).sum(-1)
    assert np.abs(corrected - true_lse).max() < 0.05 * np.abs(corrected - lse).max()


def test_hadamard_helps_where_a_channel_stands_out_in_q_and_k():
    q, k, v = reference.random_inputs(4, 1, 2, 2, 128, 256, 128)
    q[..., 7] *= 10
    k[..., 7] *= 10
    truth, _ = reference.attend(q, k, v)
    plain, rotated = (error(attended(q, k, v, "block64", rotate=r), truth) for r in (False, True))
    assert rotated < plain / 1.5, (plain, rotated)


def test_channels_and_transposed_values():
    q, k, v = reference.random_inputs(5, 1, 2, 2, 64, 200, 32)
    v *= np.exp2(np.arange(32)).astype(np.float32)
    truth, _ = reference.attend(q, k, v)
    rows = attended(q, k, v, "head", value_kind="channel")
    assert np.array_equal(attended(q, k, v, "head", value_kind="channel", transpose=True), rows)
    coarse = attended(q, k, v, "head")
    # The first ones are so small that a common scale leaves them no bits.
    assert error(rows[..., :8], truth[..., :8]) < error(coarse[..., :8], truth[..., :8]) / 4


def test_threads_change_nothing():
    x = np.random.default_rng(6).standard_normal((1, 2, 5000, 64)).astype(np.float32)
    tessera.set_threads(1)
    one = tessera.quantise(x, scales="block128", smooth=True, hadamard=True)
    tessera.set_threads(2)
    two = tessera.quantise(x, scales="block128", smooth=True, hadamard=True)
    assert all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(one, two))


X = np.ones((1, 1, 4, 12), np.float32)
REFUSALS = {
    "dtype": (X, {"dtype": "float16"}, ValueError, "dtype is 'float16'; 'float8_e4m3fn', 'float8_e5m2' or"),
    "scales": (X, {"scales": "row"}, ValueError, "scales is 'row'; one of 'tensor', 'head'"),
    "hadamard": (X, {"hadamard": True}, ValueError, "hadamard is set, but input.shape"),
    "rank": (X[0], {}, ValueError, "x has the shape"),
    "no array": ([1, 2], {}, ValueError, "x has the shape"),
    "input": (X.astype(np.float64), {}, TypeError, "x has dtype float64"),
    "strides": (np.ones((1, 1, 4, 24), np.float32)[..., ::2], {}, ValueError, r"input.strides\[3\] is 2"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    x, options, exception, sentence = REFUSALS[name]
    with pytest.raises(exception, match=sentence):
        tessera.quantise(x, **options)


def test_torch():
    torch = need("torch")
    x = np.random.default_rng(7).standard_normal((1, 2, 70, 32)).astype(np.float32)
    want = tessera.quantise(x, scales="block64", smooth=True)
    got = tessera.quantise(torch.from_numpy(x), torch.float8_e4m3fn, scales="block64", smooth=True)
    assert got[0].dtype == torch.float8_e4m3fn
    assert np.array_equal(got[0].view(torch.uint8).numpy(), want[0].view(np.uint8))
    assert np.array_equal(got[1].numpy(), want[1]) and np.array_equal(got[2].numpy(), want[2])
    columns, _ = tessera.quantise(torch.from_numpy(x).bfloat16().requires_grad_(), transpose=True)
    assert columns.stride(2) == 1


def test_jax():
    jax = need("jax")
    x = np.random.default_rng(8).standard_normal((1, 2, 9, 16)).astype(np.float32)
    codes, scales = tessera.quantise(jax.numpy.asarray(x), scales="head")
    assert isinstance(codes, jax.Array) and codes.dtype == jax.numpy.float8_e4m3fn
    want, _ = tessera.quantise(x, scales="head")
    assert np.array_equal(np.asarray(codes).view(np.uint8), want.view(np.uint8)) and scales.shape == (1, 2, 1, 1)


def test_cupy_is_refused_by_name(monkeypatch):
    class Array:  # whoever has one has imported CuPy
        shape = (1, 1, 4, 8)

    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(ndarray=Array))
    with pytest.raises(TypeError, match="x is an array of CuPy, which has no 8-bit floats"):
        tessera.quantise(Array())
