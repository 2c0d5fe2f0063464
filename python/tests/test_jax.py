"""tessera.jax and attend() on arrays of JAX: jit, every option, gradients, refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import reference
from conftest import need

jax = need("jax")

import jax.numpy as jnp  # noqa: E402
import tessera  # noqa: E402
import tessera.jax  # noqa: E402
from test_numpy import OPTIONS  # noqa: E402

CPU = jax.devices("cpu")[0]


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(CPU):
        yield


def to_jax(*arrays):
    return tuple(jax.device_put(a, CPU) for a in arrays)


def to_jax_options(options):
    return {n: jax.device_put(o, CPU) if isinstance(o, np.ndarray) else o for n, o in options.items()}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_matches_the_oracle(dtype, jit):
    q, k, v = reference.random_inputs(1, 2, 8, 2, 33, 65, 64, dtype=dtype)

    def call(q, k, v):
        return tessera.attend(q, k, v, causal="bottom-right", return_lse=True)

    out, lse = (jax.jit(call) if jit else call)(*to_jax(q, k, v))
    assert isinstance(out, jax.Array) and out.dtype == dtype
    reference.check(np.asarray(out), q, k, v, lse=np.asarray(lse), causal="bottom-right")


@pytest.mark.parametrize("causal", [None, "top-left"])
@pytest.mark.parametrize("shape", [(2, 8, 256, 64), (2, 8, 512, 64)])
def test_parity_with_jaxs_own_attention(shape, causal):
    batch, heads, length, dim = shape
    q, k, v = to_jax(*reference.random_inputs(9, batch, heads, heads, length, length, dim, dtype=np.float16))
    ours = tessera.attend(q, k, v, causal=causal)
    q, k, v = (t.swapaxes(1, 2).astype(jnp.float32) for t in (q, k, v))
    theirs = jax.nn.dot_product_attention(q, k, v, is_causal=causal is not None).swapaxes(1, 2)
    np.testing.assert_allclose(np.asarray(ours, np.float32), np.asarray(theirs), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name):
    q, k, v = reference.random_inputs(2, 3, 4, 2, 23, 41, 32)
    out, lse = tessera.jax.attend(*to_jax(q, k, v), return_lse=True, **to_jax_options(OPTIONS[name]))
    reference.check(np.asarray(out), q, k, v, lse=np.asarray(lse), where=name, **OPTIONS[name])


@pytest.mark.parametrize("name", [n for n in OPTIONS if n != "lengths"])
def test_gradients_match_finite_differences(name):
    """The backward pass differentiates its own jax.numpy formula; the forward one is the kernel's."""
    q, k, v = reference.random_inputs(3, 3, 4, 2, 23, 41, 32)
    options = OPTIONS[name]
    rng = np.random.default_rng(4)
    weight = rng.standard_normal(q.shape)
    gradients = jax.grad(
        lambda *x: (tessera.jax.attend(*x, **to_jax_options(options)) * jnp.asarray(weight, jnp.float32)).sum(),
        argnums=(0, 1, 2),
    )(*to_jax(q, k, v))
    for at, gradient in enumerate(gradients):
        assert np.isfinite(np.asarray(gradient)).all()
        direction = rng.standard_normal(gradient.shape)
        step = 1e-4
        moved = []
        for sign in (1, -1):
            inputs = [t.astype(np.float64) for t in (q, k, v)]
            inputs[at] = inputs[at] + sign * step * direction
            moved.append((reference.attend(*inputs, **options)[0] * weight).sum())
        numeric = (moved[0] - moved[1]) / (2 * step)
        assert abs((np.asarray(gradient, np.float64) * direction).sum() - numeric) < 1e-3 * (1 + abs(numeric)), name


@pytest.mark.parametrize("name", [n for n in OPTIONS if n not in ("additive f16 mask", "scale zero")])
def test_forward_mode_and_second_derivatives(name):
    """Held against the derivatives of the plain formula, whose first one finite differences have checked."""
    arrays = reference.random_inputs(9, 3, 4, 2, 23, 41, 32)
    options = to_jax_options(OPTIONS[name])
    x, rng = to_jax(*arrays), np.random.default_rng(10)
    tangents = tuple(jnp.asarray(rng.standard_normal(t.shape), jnp.float32) for t in x)
    names = tuple(n for n in ("mask", "alibi", "sinks", "key_lengths") if n in options)
    parsed = tessera.jax.parse(
        options.get("causal"), options.get("window"), options.get("scale"), options.get("softcap"), None,
        queries=23, keys=41, has_lengths="key_lengths" in options,
    )  # fmt: skip
    extra = tuple(options[n] for n in names)
    ours = lambda *x: (tessera.jax.attend(*x, **options) ** 2).sum()  # noqa: E731
    plain = lambda *x: (tessera.jax._reference(parsed, names, (*x, *extra))[0] ** 2).sum()  # noqa: E731

    def slope(f):
        return lambda *x: sum(jnp.vdot(g, t) for g, t in zip(jax.grad(f, (0, 1, 2))(*x), tangents))

    np.testing.assert_allclose(jax.jvp(ours, x, tangents)[1], jax.jvp(plain, x, tangents)[1], rtol=1e-3, atol=1e-3)
    for derivative in (
        lambda f: jax.jit(jax.grad(slope(f), (0, 1, 2)))(*x),  # reverse over reverse
        lambda f: jax.jvp(jax.grad(f, (0, 1, 2)), x, tangents)[1],  # forward over reverse
        lambda f: jax.grad(lambda *x: jax.jvp(f, x, tangents)[1], (0, 1, 2))(*x),  # reverse over forward
    ):
        for got, want in zip(derivative(ours), derivative(plain), strict=True):
            assert np.abs(np.asarray(want)).max() > 1e-3
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-3, atol=1e-3)


def test_the_forward_pass_of_a_gradient_keeps_no_scores():
    q, k, v = to_jax(*reference.random_inputs(11, 1, 2, 2, 50, 60, 16))
    kept = jax.tree.leaves(jax.vjp(lambda *x: tessera.jax.attend(*x, causal="top-left"), q, k, v)[1])
    assert kept and all(t.shape[-2:] != (50, 60) for t in kept if hasattr(t, "shape"))


def test_vmap():
    q, k, v = to_jax(*reference.random_inputs(5, 3, 2, 2, 5, 7, 16))
    mapped = jax.vmap(lambda q, k, v: tessera.jax.attend(q[None], k[None], v[None])[0])(q, k, v)
    np.testing.assert_array_equal(np.asarray(mapped), np.asarray(tessera.attend(q, k, v)))


def test_inside_a_larger_program():
    """Transposed operands and several calls in one program: XLA lays memory out anew around each."""
    q, k, v = reference.random_inputs(6, 2, 4, 4, 16, 16, 32)

    @jax.jit
    def twice(q, k, v):
        q, k, v = (t.swapaxes(1, 2) for t in (q, k, v))
        once = tessera.jax.attend(q, k, v, causal="top-left")
        return tessera.jax.attend(once, k, v).swapaxes(1, 2)

    got = np.asarray(twice(*(t.swapaxes(1, 2) for t in to_jax(q, k, v)))).swapaxes(1, 2)
    once = reference.attend(q, k, v, causal="top-left")[0]
    np.testing.assert_allclose(got, reference.attend(once, k, v)[0], atol=1e-5)


def test_refusals():
    q, k, v = to_jax(*reference.random_inputs(7, 1, 4, 2, 5, 7, 16))
    with pytest.raises(ValueError, match="four dimensions"):
        tessera.attend(q[0], k, v)
    with pytest.raises(ValueError, match="out= is for arrays that can be written"):
        tessera.attend(q, k, v, out=q)
    with pytest.raises(ValueError, match="causal is 'up'"):
        tessera.attend(q, k, v, causal="up")
    with pytest.raises(Exception, match="key.shape.1. is 3, but query has 4 heads"):
        jax.block_until_ready(tessera.attend(q, k[:, [0, 1, 0]], v[:, [0, 1, 0]]))
    with pytest.raises(Exception, match="query.dtype"):
        jax.block_until_ready(tessera.attend(*(t.astype(jnp.int8) for t in (q, k, v))))


def test_cuda_arrays():
    try:
        gpu = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX has no CUDA device here ({str(error).splitlines()[0]})")
    host = reference.random_inputs(8, 1, 4, 2, 33, 65, 64, dtype=np.float16)
    q, k, v = (jax.device_put(t, gpu) for t in host)
    try:
        out = np.asarray(tessera.attend(q, k, v, causal="bottom-right"))
    except Exception as error:
        # With CUDA kernels in the build, a GPU that JAX can use must not be refused.
        assert "device.kind is 2 (cuda), but this build of Tessera has no CUDA kernels" in str(error)
        pytest.skip(f"nothing to compute with: {error}")
    np.testing.assert_allclose(out.astype(np.float64), reference.attend(*host, causal="bottom-right")[0], atol=3e-3)
