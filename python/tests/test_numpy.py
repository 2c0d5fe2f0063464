"""attend() on NumPy arrays: every option against the float64 oracle, every layout, every refusal."""

from __future__ import annotations

import array

import ml_dtypes
import numpy as np
import pytest
import reference
import tessera

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 1, 1, 1), (2, 3, 3, 65, 65, 64), (2, 8, 2, 7, 130, 80), (1, 4, 1, 1, 513, 128), (1, 2, 2, 33, 9, 3)],
)
def test_matches_the_oracle(dtype, shape):
    q, k, v = reference.random_inputs(1, *shape, dtype=dtype)
    out, lse = tessera.attend(q, k, v, return_lse=True)
    assert type(out) is np.ndarray and type(lse) is np.ndarray
    reference.check(out, q, k, v, lse=lse)


RNG = np.random.default_rng(7)
OPTIONS = {
    "top-left": {"causal": "top-left"},
    "bottom-right": {"causal": "bottom-right"},
    "causal window": {"causal": "bottom-right", "window": (9, 0)},
    "window both sides": {"window": (5, 11, "top-left")},
    "window right": {"window": (None, 3, "bottom-right")},
    "scale": {"scale": 0.3},
    "negative scale": {"scale": -0.2},
    "scale zero": {"scale": 0.0},
    "softcap": {"softcap": 2.5},
    "alibi": {"alibi": np.float32([0.5, 0.25, 0.125, 1.0]), "causal": "bottom-right"},
    "alibi per batch": {"alibi": RNG.random((3, 4), dtype=np.float32), "causal": "top-left"},
    "sinks": {"sinks": np.float32([0.0, 1.0, -3.0, 20.0])},
    "lengths": {"key_lengths": np.int32([0, 41, 20])},
    "lengths causal": {"key_lengths": np.int64([1, 41, 30]), "causal": "bottom-right"},
    "bool mask": {"mask": RNG.random((3, 4, 23, 41)) > 0.4},
    "bool mask per key": {"mask": RNG.random(41) > 0.4},
    "bool mask per batch": {"mask": RNG.random((3, 1, 1, 41)) > 0.4},
    "additive mask": {"mask": RNG.standard_normal((4, 23, 41)).astype(np.float32)},
    "additive f16 mask": {"mask": RNG.standard_normal((23, 41)).astype(np.float16)},
    "everything": {
        "mask": RNG.standard_normal((3, 1, 23, 41)).astype(np.float32),
        "causal": "bottom-right",
        "window": (17, 0),
        "scale": 0.2,
        "softcap": 4.0,
        "alibi": np.float32([0.5, 0.25, 0.125, 1.0]),
        "sinks": np.float32([0.0, 1.0, -3.0, 2.0]),
        "key_lengths": np.int32([0, 41, 20]),
    },
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name, dtype):
    q, k, v = reference.random_inputs(2, 3, 4, 2, 23, 41, 32, dtype=dtype)
    out, lse = tessera.attend(q, k, v, return_lse=True, **OPTIONS[name])
    reference.check(out, q, k, v, lse=lse, where=name, **OPTIONS[name])


def test_window_as_a_number_is_the_left_side():
    q, k, v = reference.random_inputs(3, 1, 2, 2, 30, 30, 16)
    assert np.array_equal(
        tessera.attend(q, k, v, causal="top-left", window=4), tessera.attend(q, k, v, causal="top-left", window=(4, 0))
    )
    # Equally many queries and keys: both alignments are one, and none need be named.
    assert np.array_equal(tessera.attend(q, k, v, window=(4, 2)), tessera.attend(q, k, v, window=(4, 2, "bottom-right")))
    for four in (np.int64(4), np.uint8(4), np.array(4)):  # whole numbers as arithmetic on shapes gives them
        assert np.array_equal(tessera.attend(q, k, v, window=four), tessera.attend(q, k, v, window=4))
    assert np.array_equal(tessera.attend(q, k, v, window=np.array([4, 2])), tessera.attend(q, k, v, window=(4, 2)))


def test_value_dim_of_its_own():
    q, k, v = reference.random_inputs(4, 2, 4, 2, 20, 30, 48, value_dim=16)
    reference.check(tessera.attend(q, k, v), q, k, v)


# Layouts: nothing is copied, and nothing but the strides may matter.


def test_strided_views_give_the_same_bits():
    q, k, v = reference.random_inputs(5, 2, 4, 4, 33, 40, 32)
    want = tessera.attend(q, k, v)

    def bshd(t):
        return np.ascontiguousarray(t.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)

    def padded(t):
        room = np.full((t.shape[0], t.shape[1] + 1, t.shape[2] + 2, t.shape[3] + 8), np.nan, t.dtype)
        view = room[:, :-1, 1:-1, 3:-5]
        view[...] = t
        return view

    for layout in (bshd, padded):
        views = [layout(t) for t in (q, k, v)]
        assert not any(t.flags.c_contiguous for t in views)
        assert np.array_equal(tessera.attend(*views), want)


def test_result_has_the_memory_order_of_q():
    q, k, v = (np.ascontiguousarray(t.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
               for t in reference.random_inputs(6, 2, 3, 3, 8, 8, 16))  # fmt: skip
    assert tessera.attend(q, k, v).strides == q.strides


def test_broadcast_inputs():
    q, k, v = reference.random_inputs(7, 1, 4, 1, 9, 20, 32)
    wide_q = np.broadcast_to(q, (3, 4, 9, 32))
    wide_k, wide_v = (np.broadcast_to(t, (3, 4, 20, 32)) for t in (k, v))
    out = tessera.attend(wide_q, wide_k, wide_v)
    copies = [np.ascontiguousarray(t) for t in (wide_q, wide_k, wide_v)]
    assert np.array_equal(out, tessera.attend(*copies)) and np.array_equal(out[0], out[2])
    mask = np.broadcast_to(np.arange(9)[:, None] > 3, (9, 20))  # stride 0 along the keys
    assert mask.strides[1] == 0
    reference.check(tessera.attend(q, k, v, mask=mask), q, k, v, mask=mask)


def test_broadcast_mask_of_the_wrong_size_is_refused():
    q, k, v = reference.random_inputs(7, 1, 1, 1, 9, 20, 32)
    with pytest.raises(ValueError, match=r"mask.tensor.shape\[1\] is 19"):
        tessera.attend(q, k, v, mask=np.broadcast_to(np.ones((9, 1), bool), (9, 19)))


def test_read_only_inputs_are_fine():
    q, k, v = reference.random_inputs(8, 1, 1, 1, 4, 4, 8)
    for t in (q, k, v):
        t.flags.writeable = False
    reference.check(tessera.attend(q, k, v), q, k, v)


@pytest.mark.parametrize("zero", ["batch", "queries", "keys"])
def test_zero_sizes(zero):
    sizes = {"batch": 2, "heads": 2, "kv_heads": 1, "queries": 3, "keys": 5, "dim": 8} | {zero: 0}
    q, k, v = reference.random_inputs(9, *sizes.values())
    out, lse = tessera.attend(q, k, v, return_lse=True)
    assert out.shape == q.shape and lse.shape == q.shape[:3]
    if zero == "keys":
        assert not out.any() and np.all(lse == -np.inf)


def test_out_is_written_and_returned():
    q, k, v = reference.random_inputs(10, 2, 2, 2, 5, 6, 16)
    room = np.full((2, 5, 2, 16), np.nan, np.float32)
    out = room.transpose(0, 2, 1, 3)
    assert tessera.attend(q, k, v, out=out) is out
    reference.check(out, q, k, v)
    out2, lse = tessera.attend(q, k, v, out=out, return_lse=True)
    assert out2 is out and lse.shape == (2, 2, 5)


def test_kernels_by_name_agree():
    q, k, v = reference.random_inputs(11, 1, 4, 2, 40, 50, 64)
    name = tessera.plan(q, k, v)["kernel"]
    assert name in tessera.explain(q, k, v)
    assert np.array_equal(tessera.attend(q, k, v, kernel=name), tessera.attend(q, k, v))
    with pytest.raises(tessera.InvalidArgument, match=f'"no_such_kernel"; this device has: .*{name}'):
        tessera.attend(q, k, v, kernel="no_such_kernel")


def test_plan_counts_the_work():
    q, k, v = reference.random_inputs(11, 2, 4, 2, 40, 50, 64)
    plan = tessera.plan(q, k, v)
    assert plan["flops"] == 2 * 2 * 4 * 40 * 50 * (64 + 64)
    assert plan["threads"] >= 1 and plan["reason"]


# Other ways to hand over memory.


class OnlyDlpack:
    """An array of which only DLPack is known, in the protocol's new form or in the one before 1.0."""

    def __init__(self, source, versioned):
        self._source, self._versioned = source, versioned

    def __dlpack_device__(self):
        return self._source.__dlpack_device__()

    def __dlpack__(self, **options):
        if self._versioned:
            return self._source.__dlpack__(**options)
        if options:
            raise TypeError("unexpected keyword argument")
        return self._source.__dlpack__()


class OnlyArrayInterface:
    def __init__(self, source):
        self._source = source
        self.__array_interface__ = source.__array_interface__


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_alone(versioned):
    q, k, v = reference.random_inputs(12, 1, 2, 2, 5, 6, 16)
    out = np.empty_like(q)
    wrapped = [OnlyDlpack(t.transpose(0, 1, 2, 3), versioned) for t in (q, k, v)]
    assert tessera.attend(*wrapped, out=out) is out
    reference.check(out, q, k, v)
    with pytest.raises(TypeError, match="pass out="):
        tessera.attend(*wrapped)


def test_array_interface_alone():
    q, k, v = reference.random_inputs(13, 1, 2, 2, 5, 6, 16)
    out = np.empty_like(q)
    tessera.attend(OnlyArrayInterface(q), OnlyArrayInterface(k), OnlyArrayInterface(v[:, :, ::1]), out=out)
    reference.check(out, q, k, v)


def test_buffers_alone():
    q, k, v = reference.random_inputs(14, 1, 1, 1, 2, 3, 4)
    out = array.array("f", bytes(4 * q.size))
    room = memoryview(out).cast("B").cast("f", q.shape)
    tessera.attend(memoryview(q), memoryview(k), memoryview(v), out=room)
    reference.check(np.array(out, np.float32).reshape(q.shape), q, k, v)


# Refusals: a sentence each, and the right exception.


def good():
    return reference.random_inputs(15, 1, 4, 2, 6, 8, 16)


REFUSALS = {
    "double": (lambda q, k, v: (q.astype(np.float64), k, v), {}, TypeError, "q has dtype float64"),
    "integers": (lambda q, k, v: (q, k.astype(np.int16), v), {}, TypeError, "k has dtype int16"),
    "mixed": (lambda q, k, v: (q, k.astype(np.float16), v), {}, ValueError, "key.dtype is f16, but query.dtype is f32"),
    "foreign bytes": (lambda q, k, v: (q.astype(">f4"), k, v), {}, TypeError, "foreign byte order"),
    "void": (lambda q, k, v: (q.view("V4"), k, v), {}, TypeError, r"q has dtype \|V4"),
    "rank 3": (lambda q, k, v: (q[0], k, v), {}, ValueError, "query.rank is 3"),
    "rank 5": (lambda q, k, v: (q[None], k, v), {}, ValueError, "query.rank is 5"),
    "heads": (lambda q, k, v: (q, k[:, [0, 1, 0]], v[:, [0, 1, 0]]), {}, ValueError, "query has 4 heads"),
    "dim": (lambda q, k, v: (q, k[..., :8], v), {}, ValueError, "query's head dimension is 16"),
    "step": (lambda q, k, v: (q[..., ::2], k[..., ::2], v), {}, ValueError, r"query.strides\[3\] is 2"),
    "transposed": (lambda q, k, v: (q.swapaxes(2, 3), k, v), {}, ValueError, "must be contiguous"),
    "reversed": (lambda q, k, v: (q[:, :, ::-1], k, v), {}, ValueError, "strides are 0 or more"),
    "number": (lambda q, k, v: (1.0, k, v), {}, TypeError, "q is a float"),
    "list": (lambda q, k, v: (q, k.tolist(), v), {}, TypeError, "k is a list"),
    "causal": (lambda q, k, v: (q, k, v), {"causal": True}, ValueError, "causal is True; 'top-left'"),
    "window ahead": (lambda q, k, v: (q, k, v), {"causal": "top-left", "window": (3, 2)}, ValueError, "2 keys ahead"),
    "window alone": (lambda q, k, v: (q, k, v), {"window": (3, 2)}, ValueError, "window needs an alignment"),
    "window clash": (
        lambda q, k, v: (q, k, v), {"causal": "top-left", "window": (3, 0, "bottom-right")}, ValueError, "different"),
    "window side": (lambda q, k, v: (q, k, v), {"window": (-2, 0, "top-left")}, ValueError, "-2 keys"),
    "window truth": (lambda q, k, v: (q, k, v), {"window": True}, ValueError, "window has a side of True keys"),
    "window fraction": (lambda q, k, v: (q, k, v), {"window": (1.5, 0, "top-left")}, ValueError, "side of 1.5 keys"),
    "window huge": (lambda q, k, v: (q, k, v), {"window": (2**64, 0, "top-left")}, ValueError, "a whole number"),
    "window text": (lambda q, k, v: (q, k, v), {"window": "wide"}, ValueError, "window is 'wide'"),
    "scale": (lambda q, k, v: (q, k, v), {"scale": float("nan")}, ValueError, "scale is nan"),
    "scale text": (lambda q, k, v: (q, k, v), {"scale": "big"}, TypeError, "scale is 'big'"),
    "softcap": (lambda q, k, v: (q, k, v), {"softcap": -1.0}, ValueError, "softcap is -1"),
    "kernel": (lambda q, k, v: (q, k, v), {"kernel": 3}, TypeError, "kernel is 3"),
    "mask shape": (lambda q, k, v: (q, k, v), {"mask": np.ones((6, 7), bool)}, ValueError, r"mask.tensor.shape\[1\] is 7"),
    "mask dtype": (lambda q, k, v: (q, k, v), {"mask": np.ones((6, 8), np.int32)}, ValueError, "mask.tensor.dtype is i32"),
    "lengths": (lambda q, k, v: (q, k, v), {"key_lengths": np.int32([9])}, ValueError, r"key_lengths\[0\] is 9"),
    "sinks": (lambda q, k, v: (q, k, v), {"sinks": np.zeros(3, np.float32)}, ValueError, r"sinks.shape\[0\] is 3"),
    "fp8 alone": (lambda q, k, v: (q.astype(ml_dtypes.float8_e4m3fn), k, v), {}, ValueError, "key.dtype is f32"),
    "unknown": (lambda q, k, v: (q, k, v), {"dropout": 0.1}, TypeError, "no argument 'dropout'"),
    "twice": (lambda q, k, v: (q, k, v), {"k": 1}, TypeError, "'k' twice"),
    "missing": (lambda q, k, v: (q, k), {}, TypeError, r"attend\(\) needs v"),
    "positional": (lambda q, k, v: (q, k, v, None), {}, TypeError, "by position"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    change, options, exception, sentence = REFUSALS[name]
    with pytest.raises(exception, match=sentence):
        tessera.attend(*change(*good()), **options)


def test_out_refusals():
    q, k, v = good()
    frozen = np.empty_like(q)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        tessera.attend(q, k, v, out=frozen)
    with pytest.raises(ValueError, match="output overlaps query"):
        tessera.attend(q, k, v, out=q)
    with pytest.raises(ValueError, match=r"output.shape\[2\] is 5"):
        tessera.attend(q, k, v, out=np.empty_like(q)[:, :, :5])
    with pytest.raises(ValueError, match="overlap each other"):
        tessera.attend(q, k, v, out=np.lib.stride_tricks.as_strided(np.empty_like(q), q.shape, (0, 0, 64, 4)))


def test_errors_are_ours_and_pythons():
    q, k, v = good()
    with pytest.raises(tessera.Error) as caught:
        tessera.attend(q[0], k, v)
    assert isinstance(caught.value, (tessera.InvalidArgument, ValueError))
    assert issubclass(tessera.Unsupported, NotImplementedError)
    assert issubclass(tessera.DeviceUnavailable, RuntimeError)
    assert "invalid argument: query.rank is 3" in tessera.explain(q[0], k, v)


def test_signature_and_help():
    import inspect

    names = list(inspect.signature(tessera.attend).parameters)
    assert names == ["q", "k", "v", "mask", "causal", "window", "scale", "softcap", "alibi", "sinks", "key_lengths",
                     "return_lse", "out", "kernel", "workspace", "query_offsets", "key_offsets", "page_table", "prior",
                     "mask_align", "invariant", "query_scales", "key_scales", "value_scales", "scale_rows", "precision",
                     "output_dtype", "new_key", "new_value", "rope", "positions", "key_tail"]  # fmt: skip
    assert "bottom-right" in tessera.attend.__doc__


SEED_SHAPES = {
    "mission256": (2, 8, 256, 64),
    "mission512": (2, 8, 512, 64),
    "mission_b8": (8, 8, 512, 64),
    "canon_1": (4, 16, 2048, 128),
}


@pytest.mark.parametrize("causal", [None, "bottom-right"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", SEED_SHAPES)
def test_seed_shapes(name, dtype, causal):
    batch, heads, length, dim = SEED_SHAPES[name]
    q, k, v = reference.random_inputs(16, batch, heads, heads, length, length, dim, dtype=dtype)
    out = tessera.attend(q, k, v, causal=causal)
    # The float64 oracle is slow: the first head and the last, which no batch or head offset can both hit by luck.
    for b, h in ((0, 0), (batch - 1, heads - 1)):
        part = [t[b : b + 1, h : h + 1] for t in (q, k, v)]
        got = out[b : b + 1, h : h + 1]
        truth = reference.check(got, *part, causal=causal, where=name)
        np.testing.assert_allclose(got.astype(np.float64), truth, atol=1e-2, rtol=1e-2)


def test_additive_minus_infinity_hides_keys_that_were_never_written():
    q, k, v = (RNG.standard_normal((1, 2, n, 16)).astype(np.float32) for n in (5, 9, 9))
    written = tessera.attend(q, k[:, :, :6], v[:, :, :6])
    k[:, :, 6:], v[:, :, 6:] = np.nan, np.inf
    mask = np.where(np.arange(9) < 6, 0, -np.inf).astype(np.float32)
    np.testing.assert_allclose(tessera.attend(q, k, v, mask=mask), written, rtol=1e-5, atol=1e-6)
