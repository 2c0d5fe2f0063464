"""Tessera for JAX: attend() as a foreign call of XLA, so that it works inside and outside jit.

    import jax, tessera.jax
    f = jax.jit(lambda q, k, v: tessera.jax.attend(q, k, v, causal="bottom-right"))

Derivatives of either mode and any order are exact and slow: they recompute the scores with jax.numpy and
store them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _append, _binding
from ._options import ALIGN, UNBOUNDED, Options, align_of, parse

__all__ = ["attend"]

_TARGET = "tessera_attend"
_OPTIONAL = ("mask", "alibi", "sinks", "key_lengths")
# These have no derivative.
_SERVING = ("query_offsets", "key_offsets", "page_table", "prior_output", "prior_lse")
_SCALES = ("query_scales", "key_scales", "value_scales")
_APPEND = ("new_key", "new_value", "rope_cos", "rope_sin", "positions", "key_tail")
_WITHOUT_DERIVATIVE = _SERVING + _SCALES + _APPEND
_PRECISION = {None: 0, "accurate": 0, "fast": 1}

try:
    _register, _ffi_call = jax.ffi.register_ffi_target, jax.ffi.ffi_call
except AttributeError:
    raise ImportError(
        f"tessera.jax needs JAX 0.5 or newer, which has jax.ffi, and this is {jax.__version__}"
    ) from None
for _platform, _capsule in _binding.jax_targets().items():
    _register(_TARGET, _capsule, platform=_platform, api_version=1)
jax.tree_util.register_pytree_node(
    _append.Rope,
    lambda rope: ((rope.cos, rope.sin), (rope.interleaved, rope.first)),
    lambda how, tables: _append.Rope(*tables, *how),
)


class Extras(NamedTuple):
    """What calls without a derivative may ask for. Hashable, as Options are."""

    tensor_align: int = 0
    invariant: int = 0
    scale_rows: int = 0
    precision: int = 0
    output_dtype: str = ""  # q's own, of an 8-bit q float16
    rope_interleaved: int = 0
    rope_first: int = 0
    value_in_key: int = 0  # then v is no operand


def _is_code(array) -> bool:
    return array.dtype.name.startswith(("float8", "int8"))


def _call(options: Options, names: tuple[str, ...], threads: int, operands, extras: Extras = Extras()):
    q, k = operands[:2]
    v = k if extras.value_in_key else operands[2]
    dtype = extras.output_dtype or (jnp.float16 if _is_code(q) else q.dtype)
    results = [
        jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), dtype),
        jax.ShapeDtypeStruct(q.shape[:3], jnp.float32),
    ]
    aliases = {}  # of operands that are written to, the result that is their memory
    for at, (new, cache) in enumerate((("new_key", k), ("new_value", v))):
        if "new_key" in names and new in names:
            aliases[1 + at] = len(results)
            results.append(jax.ShapeDtypeStruct(cache.shape, cache.dtype))
    if "new_key" in names and "key_tail" in names:
        at = len(operands) - len(names) + names.index("key_tail")
        aliases[at] = len(results)
        results.append(jax.ShapeDtypeStruct(operands[at].shape, operands[at].dtype))
    call = _ffi_call(_TARGET, results, vmap_method="sequential", input_output_aliases=aliases)
    found = call(
        *operands,
        align=np.int64(options.align),
        left=np.int64(options.left),
        right=np.int64(options.right),
        scale=np.float32(options.scale),
        softcap=np.float32(options.softcap),
        kernel=options.kernel,
        operands=",".join(names),
        threads=np.int64(threads),
        tensor_align=np.int64(extras.tensor_align),
        invariant=np.int64(extras.invariant),
        scale_rows=np.int64(extras.scale_rows),
        precision=np.int64(extras.precision),
        rope_interleaved=np.int64(extras.rope_interleaved),
        rope_first=np.int64(extras.rope_first),
        value_in_key=np.int64(extras.value_in_key),
    )
    return tuple(found)  # a list in JAX 0.5


def _reference(options: Options, names: tuple[str, ...], operands):
    """The definition in the C header in plain jax.numpy: what derivatives are taken of."""
    q, k, v = (t.astype(jnp.float32) for t in operands[:3])
    x = dict(zip(names, operands[3:], strict=True))
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    k, v = (jnp.repeat(t, heads // t.shape[1], axis=1) for t in (k, v))
    s = jnp.einsum("bhid,bhjd->bhij", q, k, precision="highest") * (options.scale or q.shape[-1] ** -0.5)
    if options.softcap:
        s = options.softcap * jnp.tanh(s / options.softcap)
    lengths = jnp.reshape(x.get("key_lengths", jnp.full((1,), keys)), (-1, 1, 1, 1))
    position = jnp.arange(queries)[:, None]
    if options.align == ALIGN["bottom-right"]:
        position = position + lengths - queries
    j = jnp.arange(keys)
    if "alibi" in x:
        s = s - jnp.reshape(x["alibi"], (-1, heads, 1, 1)) * jnp.abs(position - j)
    hidden = j >= lengths
    if options.align and options.left != UNBOUNDED:
        hidden = hidden | (j < position - options.left)
    if options.align and options.right != UNBOUNDED:
        hidden = hidden | (j > position + options.right)
    if "mask" in x and x["mask"].dtype == bool:
        hidden = hidden | ~x["mask"]
    elif "mask" in x:
        hidden = hidden | (x["mask"] == -jnp.inf)  # whatever the score is, NaN included
        s = s + x["mask"].astype(jnp.float32)
    hidden = jnp.broadcast_to(hidden, s.shape) | (s == -jnp.inf)

    # A hidden score is replaced before and after exp, so that no 0 * inf arises in the gradient.
    top = jnp.max(jnp.where(hidden, -jnp.inf, s), axis=-1, initial=-jnp.inf)
    if "sinks" in x:
        top = jnp.maximum(top, x["sinks"][:, None])
    top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
    e = jnp.where(hidden, 0.0, jnp.exp(jnp.where(hidden, 0.0, s - top[..., None])))
    total = e.sum(axis=-1)
    if "sinks" in x:
        total = total + jnp.exp(x["sinks"][:, None] - top)
    seen = total > 0
    safe = jnp.where(seen, total, 1.0)
    output = jnp.einsum("bhij,bhjd->bhid", e / safe[..., None], v, precision="highest")
    return output.astype(operands[0].dtype), jnp.where(seen, jnp.log(safe) + top, -jnp.inf)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _attend(options, names, threads, operands):
    return _call(options, names, threads, operands)


@_attend.defjvp
def _attend_jvp(options, names, threads, primals, tangents):
    # Results from the kernel, tangents from the definition. Calling _attend() again rather than _call() gives
    # the result this very rule, for derivatives of higher order. checkpoint() keeps reverse mode from carrying
    # the scores from the forward to the backward pass: it computes them again there.
    reference = jax.checkpoint(functools.partial(_reference, options, names))
    _, tangent = jax.jvp(reference, primals, tangents)
    return _attend(options, names, threads, *primals), tangent


_jitted = jax.jit(_attend, static_argnums=(0, 1, 2))
_jitted_call = jax.jit(_call, static_argnums=(0, 1, 2, 4))


def attend(
    q,
    k,
    v,
    *,
    mask=None,
    causal=None,
    window=None,
    scale=None,
    softcap=None,
    alibi=None,
    sinks=None,
    key_lengths=None,
    return_lse=False,
    out=None,
    kernel=None,
    workspace=None,
    query_offsets=None,
    key_offsets=None,
    page_table=None,
    prior=None,
    mask_align=None,
    invariant=False,
    query_scales=None,
    key_scales=None,
    value_scales=None,
    scale_rows=None,
    precision=None,
    output_dtype=None,
    new_key=None,
    new_value=None,
    rope=None,
    positions=None,
    key_tail=None,
):
    """tessera.attend() for arrays of JAX, traced or not; see there for the arguments.

    With new_key the result is (output, k, v), or (output, lse, k, v), with key_tail behind these where given: arrays of JAX are not written to, so the caches
    come back as new ones. Under jit with donate_argnums they are the old ones' memory; else XLA copies them.
    Batches with offsets, page tables or prior results, 8-bit inputs or caches, keys in two arrays, and calls that append
    or turn have no derivatives.
    """
    if out is not None:
        raise ValueError("out= is for arrays that can be written to; arrays of JAX cannot")
    if workspace is not None and workspace is not False:
        raise ValueError("workspace= is not for arrays of JAX: XLA manages the memory of a call")
    arrays = {"q": q, "k": k, "v": v}
    arrays |= {n: a for n, a in zip(_OPTIONAL, (mask, alibi, sinks, key_lengths)) if a is not None}
    if prior is not None and (not isinstance(prior, (tuple, list)) or len(prior) != 2):
        raise ValueError(
            "prior is no pair; (output, lse) of earlier calls, each with the parts in front, is accepted"
        )
    serving = (query_offsets, key_offsets, page_table, *(prior or (None, None)))
    arrays |= {n: a for n, a in zip(_SERVING, serving) if a is not None}
    arrays |= {n: a for n, a in zip(_SCALES, (query_scales, key_scales, value_scales)) if a is not None}
    in_key = new_key is not None and new_value is None
    if in_key and v is not k:
        raise ValueError(
            "new_key is given and new_value is not: of arrays of JAX that is accepted where v is k itself, since none "
            "is a part of another's memory; the output's first columns are then those of latent attention"
        )
    cos, sin, interleaved, first = (None, None, False, 0) if rope is None else _append.split(rope)
    append = (new_key, new_value, cos, sin, positions, key_tail)
    arrays |= {n: a for n, a in zip(_APPEND, append) if a is not None}
    if in_key:
        del arrays["v"]
    for name, array in arrays.items():
        if not isinstance(array, jax.Array):
            arrays[name] = jnp.asarray(array)
        if name in _SCALES and arrays[name].size == 1:
            arrays[name] = arrays[name].reshape(1, 1, 1, 1)
    shapes = {name: arrays[name].shape for name in ("q", "k", "v") if name in arrays}
    if any(len(shape) != 4 for shape in shapes.values()):
        raise _binding.InvalidArgument(f"q, k and v need four dimensions each; their shapes are {shapes}")
    options = parse(
        causal, window, scale, softcap, kernel,
        queries=shapes["q"][2], keys=shapes["k"][2],
        has_lengths=any(a is not None for a in (key_lengths, query_offsets, key_offsets)),
    )  # fmt: skip
    names = tuple(name for name in arrays if name in _OPTIONAL + _WITHOUT_DERIVATIVE)
    if precision not in _PRECISION:
        raise ValueError(f"precision is {precision!r}; 'accurate' or 'fast' is accepted")
    dtype = "" if output_dtype is None else jnp.dtype(output_dtype).name
    extras = Extras(
        align_of(mask_align, "mask_align"), int(bool(invariant)), int(scale_rows or 0), _PRECISION[precision], dtype,
        int(interleaved), first, int(in_key),
    )  # fmt: skip
    operands = tuple(arrays.values())
    caches = ()
    if extras != Extras() or _is_code(arrays["k"]) or any(n in _WITHOUT_DERIVATIVE for n in names):
        output, lse, *caches = _jitted_call(options, names, _binding.threads(), operands, extras)
    else:
        output, lse = _jitted(options, names, _binding.threads(), operands)
    if in_key:
        caches = (caches[0], *caches)
    if new_key is not None:
        return (output, lse, *caches) if return_lse else (output, *caches)
    return (output, lse) if return_lse else output
