"""attend() that appends and turns, on arrays of JAX: the caches come back, in the same memory where they are donated."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest
import tessera
from appending import Cache, assert_same_bits, tables
from conftest import need

jax = need("jax")

import jax.numpy as jnp  # noqa: E402
import tessera.jax  # noqa: E402

CPU = jax.devices("cpu")[0]
COS, SIN = tables(64, 16)
BATCHES = {"decode": ([9, 6], [1, 1], None), "pages": ([40, 17, 5], [1, 3, 5], 16)}


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(CPU):
        yield


def put(tree):
    return jax.tree.map(lambda t: jax.device_put(t, CPU), tree)


class JaxCache:
    def __init__(self, batch, dtype=np.float32, **shape):
        lengths, rows, page = BATCHES[batch]
        cache = Cache(lengths, rows, page=page, dtype=dtype, **shape)
        self.q, self.k, self.v = (put(t) for t in (cache.q, cache.k, cache.v))
        self.call = put({"new_key": cache.new_key, "new_value": cache.new_value, "rope": (COS, SIN), **cache.where})
        self.before = cache.k.copy()
        q, self.want_k, self.want_v = cache.by_hand(COS, SIN)
        self.want, self.want_lse = tessera.attend(q, self.want_k, self.want_v, causal="bottom-right", return_lse=True,
                                                  **cache.where)  # fmt: skip

    def check(self, output, k, v):
        for got, want in ((output, self.want), (k, self.want_k), (v, self.want_v)):
            assert isinstance(got, jax.Array)
            assert_same_bits(np.asarray(got), want)


def step(q, k, v, call):
    return tessera.jax.attend(q, k, v, causal="bottom-right", **call)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("batch", BATCHES)
def test_results_and_caches(batch, dtype, jit):
    cache = JaxCache(batch, dtype)
    cache.check(*(jax.jit(step) if jit else step)(cache.q, cache.k, cache.v, cache.call))
    assert_same_bits(np.asarray(cache.k), cache.before, "without donation the old cache stays as it was")
    out, lse, k, v = tessera.attend(cache.q, cache.k, cache.v, causal="bottom-right", return_lse=True, **cache.call)
    cache.check(out, k, v)
    assert_same_bits(np.asarray(lse), cache.want_lse)


def test_donated_caches_stay_where_they_are():
    cache = JaxCache("pages")
    cache.k, cache.v = jnp.copy(cache.k), jnp.copy(cache.v)  # JAX's own memory: that of an array of NumPy is not given away
    at = cache.k.unsafe_buffer_pointer(), cache.v.unsafe_buffer_pointer()
    donating = jax.jit(step, donate_argnums=(1, 2))
    program = donating.lower(cache.q, cache.k, cache.v, cache.call).compile().as_text()
    output, k, v = donating(cache.q, cache.k, cache.v, cache.call)
    cache.check(output, k, v)
    assert (k.unsafe_buffer_pointer(), v.unsafe_buffer_pointer()) == at
    assert cache.k.is_deleted() and cache.v.is_deleted()
    shape = ",".join(map(str, k.shape))
    assert f"f32[{shape}]" in program, program
    copies = [line for line in program.splitlines() if " copy(" in line and f"f32[{shape}]" in line]
    assert not copies, copies


def test_a_loop_carries_the_cache():
    """Ten steps of lax.scan, each with its own length: the rows of one prefill."""
    whole = Cache([10, 10], [10, 10])
    _, want_k, want_v = whole.by_hand(COS, SIN)

    @functools.partial(jax.jit, donate_argnums=(1, 2))
    def decode(q, k, v, new_key, new_value):
        def one(caches, i):
            row = lambda t: jax.lax.dynamic_slice_in_dim(t, i, 1, axis=2)  # noqa: E731
            _, *caches = tessera.jax.attend(
                row(q), *caches, causal="bottom-right", new_key=row(new_key), new_value=row(new_value), rope=(COS, SIN),
                key_lengths=jnp.full(2, i + 1, jnp.int32),
            )  # fmt: skip
            return tuple(caches), None

        return jax.lax.scan(one, (k, v), jnp.arange(10))[0]

    k, v = decode(*put((whole.q, whole.k, whole.v, whole.new_key, whole.new_value)))
    assert_same_bits(np.asarray(k), want_k)
    assert_same_bits(np.asarray(v), want_v)


def test_rope_alone_and_positions():
    cache = JaxCache("decode")
    k, v = put((cache.want_k, cache.want_v))
    call = {"key_lengths": cache.call["key_lengths"], "positions": np.int32([[3], [5]])}
    rope = tessera.Rope(COS[:, :4], SIN[:, :4], interleaved=True, first=5)
    out = tessera.jax.attend(cache.q, k, v, rope=rope, **call)
    want = tessera.attend(*(np.asarray(t) for t in (cache.q, k, v)), rope=rope, positions=call["positions"],
                          key_lengths=np.asarray(call["key_lengths"]))  # fmt: skip
    assert_same_bits(np.asarray(out), want)
    # A Rope may be an argument of a jitted function: its tables are traced, the rest is fixed.
    traced = jax.jit(lambda q, rope: tessera.jax.attend(q, k, v, rope=rope, **call))
    assert_same_bits(np.asarray(traced(cache.q, put(rope))), want)


@pytest.mark.parametrize("donate", [False, True])
def test_values_in_keys(donate):
    lengths, rows, page = BATCHES["pages"]
    cache = Cache(lengths, rows, page=page, kv_heads=1)
    q, want_k, _ = cache.by_hand(COS, SIN)
    want = tessera.attend(q, want_k, want_k, causal="bottom-right", **cache.where)

    def latent(q, k, new_key, where):
        return tessera.jax.attend(q, k, k, causal="bottom-right", new_key=new_key, rope=(COS, SIN), **where)

    call = jax.jit(latent, donate_argnums=(1,) if donate else ())
    out, k, v = call(*put((cache.q, cache.k, cache.new_key, cache.where)))
    assert_same_bits(np.asarray(out), want)
    assert_same_bits(np.asarray(k), want_k)
    assert_same_bits(np.asarray(v), want_k)


def test_refusals():
    cache = JaxCache("decode")
    with pytest.raises(ValueError, match="new_value is not: of arrays of JAX that is accepted where v is k itself"):
        step(cache.q, cache.k, cache.v, {n: t for n, t in cache.call.items() if n != "new_value"})
    with pytest.raises(ValueError, match="rope is no pair"):
        step(cache.q, cache.k, cache.v, cache.call | {"rope": COS})
    with pytest.raises(ValueError, match="rope.first is -1"):
        step(cache.q, cache.k, cache.v, cache.call | {"rope": tessera.Rope(COS, SIN, first=-1)})
    with pytest.raises(Exception, match="new_value is set and new_key is not"):
        step(cache.q, cache.k, cache.v, {n: t for n, t in cache.call.items() if n != "new_key"})
    with pytest.raises(Exception, match="new_key needs mask.align = bottom-right"):
        jax.block_until_ready(tessera.jax.attend(cache.q, cache.k, cache.v, **cache.call))
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda q: step(q, cache.k, cache.v, cache.call)[0].sum())(cache.q)
