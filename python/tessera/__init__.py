"""Exact attention for NumPy, PyTorch, JAX and CuPy arrays, with no framework underneath.

    import numpy as np, tessera
    q = k = v = np.random.randn(1, 8, 256, 64).astype(np.float32)
    o = tessera.attend(q, k, v, causal="bottom-right")

`tessera.torch` and `tessera.jax` add what those frameworks want beyond memory: autograd, torch.compile,
jit. `tessera.transformers` is an attention of Hugging Face's models. They are imported when first used.
"""

from __future__ import annotations

import importlib

from ._append import Rope
from ._binding import (
    DeviceUnavailable,
    Error,
    InvalidArgument,
    Unsupported,
    attend,
    explain,
    plan,
    set_threads,
    threads,
)
from ._binding import version as __version__
from ._quantise import quantise

__all__ = [
    "DeviceUnavailable",
    "Error",
    "InvalidArgument",
    "Rope",
    "Unsupported",
    "attend",
    "explain",
    "jax",
    "plan",
    "quantise",
    "set_threads",
    "threads",
    "torch",
    "transformers",
]


def __getattr__(name: str):
    if name in ("torch", "jax", "transformers"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
