"""Attention inside a jitted JAX function, and its gradient.

    python examples/python/jax_jit.py
"""

import sys

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import tessera.jax

cpu = jax.devices("cpu")[0]
with jax.default_device(cpu):
    keys = jax.random.split(jax.random.key(0), 3)
    q, k, v = (jax.random.normal(key, (2, 4, 64, 32)) for key in keys)

    @jax.jit
    def layer(q, k, v):
        return tessera.jax.attend(q, k, v, causal="top-left") * 2.0

    out = layer(q, k, v)
    own = jax.nn.dot_product_attention(*(t.swapaxes(1, 2) for t in (q, k, v)), is_causal=True).swapaxes(1, 2) * 2.0
    print("output", out.shape, "largest difference from jax.nn", float(jnp.abs(out - own).max()))
    assert jnp.allclose(out, own, atol=1e-4)

    gradient = jax.grad(lambda q: layer(q, k, v).sum())(q)
    print("gradient", gradient.shape, float(jnp.linalg.norm(gradient)))
