"""quantise(): numbers as 8-bit codes and the scales that attend() takes with them."""

from __future__ import annotations

import sys

from . import _binding

_DTYPES = ("float8_e4m3fn", "float8_e5m2", "int8")
_SCALES = ("tensor", "head", "block64", "block128", "channel")


def _dtype_name(dtype) -> str:
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise ValueError(f"dtype is {dtype!r}; 'float8_e4m3fn', 'float8_e5m2' or 'int8' is accepted")
    return name


def _numpy_dtype(name: str):
    import numpy as np

    if name == "int8":
        return np, np.dtype(np.int8)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(
            f"NumPy has no {name} of its own: install ml_dtypes, or quantise tensors of PyTorch"
        ) from None
    return np, np.dtype(getattr(ml_dtypes, name))


def _is_a(x, module: str, attribute: str) -> bool:
    """Frameworks are never imported: who holds one of its arrays has imported it."""
    found = sys.modules.get(module)
    return found is not None and isinstance(x, getattr(found, attribute, ()))


def _allocator(x, name: str):
    """empty(shape, codes) for arrays of x's framework on its device."""
    if _is_a(x, "torch", "Tensor"):
        torch = sys.modules["torch"]
        return lambda shape, codes: torch.empty(
            shape, dtype=getattr(torch, name) if codes else torch.float32, device=x.device
        )
    if _is_a(x, "cupy", "ndarray"):
        raise TypeError("x is an array of CuPy, which has no 8-bit floats; tensors of PyTorch, on a GPU, are accepted")
    np, dtype = _numpy_dtype(name)
    return lambda shape, codes: np.empty(shape, dtype if codes else np.float32)


def _scale_shape(kind: str, shape) -> tuple[tuple[int, ...], int]:
    """The shape of the scales, and the rows of a block."""
    outer, heads, length, dim = shape
    if kind not in _SCALES:
        raise ValueError(f"scales is {kind!r}; one of {', '.join(map(repr, _SCALES))} is accepted")
    if kind == "tensor":
        return (1, 1, 1, 1), 0
    if kind == "channel":
        return (outer, heads, 1, dim), 0
    rows = int(kind.removeprefix("block")) if kind != "head" else 0
    return (outer, heads, max(1, -(-length // rows)) if rows else 1, 1), rows


def quantise(x, dtype="float8_e4m3fn", *, scales="tensor", smooth=False, hadamard=False, transpose=False):
    """8-bit codes of x and their scales, for attend(): (codes, scales), or (codes, scales, means) with smooth.

    x          [outer, heads, rows, dim], float32, float16 or bfloat16: q, k or v
    dtype      "float8_e4m3fn", "float8_e5m2" or (for k and v beside a wider q) "int8", or the framework's type
    scales     what shares a scale: "tensor", "head", "block64" or "block128" (rows of a head; pass scale_rows=64 or
               128 to attend()), "channel" (of a head; for v)
    smooth     for k: subtract each channel's mean over the rows, and return the means, [outer, heads, 1, dim]. The
               output of attend() stays; its lse is too small by scale * (q * means).sum(-1)
    hadamard   for q and k, both or neither: rotate rows by the Walsh-Hadamard matrix; dim is a power of two
    transpose  for v: codes whose rows, the keys, are contiguous, as a transposed view

    Tensors of PyTorch on a GPU are quantised there, on the current stream, with the CPU's bits. All else on the CPU;
    arrays of JAX pass through NumPy, outside of jit.
    """
    name = _dtype_name(dtype)
    if _is_a(x, "jax", "Array"):
        import numpy as np

        jax = sys.modules["jax"]
        options = {"scales": scales, "smooth": smooth, "hadamard": hadamard, "transpose": transpose}
        return tuple(jax.numpy.asarray(part) for part in quantise(np.asarray(x), name, **options))
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) != 4:
        raise _binding.InvalidArgument(f"x has the shape {shape}; [outer, heads, rows, dim] is accepted")
    if getattr(x, "requires_grad", False):
        x = x.detach()  # codes have no gradient
    empty = _allocator(x, name)
    scale_shape, rows = _scale_shape(scales, shape)
    stored = (*shape[:2], shape[3], shape[2]) if transpose else shape
    codes, found = empty(stored, True), empty(scale_shape, False)
    if transpose:
        codes = codes.swapaxes(2, 3)
    means = empty((*shape[:2], 1, shape[3]), False) if smooth else None
    _binding.quantise_memory(x, codes, found, means, rows, bool(hadamard))
    return (codes, found) if means is None else (codes, found, means)
