"""Tensors, conversions and the check that nothing fell back, for the tests of PyTorch."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from conftest import need

torch = need("torch")

import torch.nn.functional as F  # noqa: E402
import tessera.torch  # noqa: E402

pytorch_sdpa = F.scaled_dot_product_attention
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
NUMPY_DTYPES = {torch.float32: np.float32, torch.float16: np.float16, torch.bfloat16: ml_dtypes.bfloat16}


def to_numpy(t):
    """The same bits; NumPy's own conversion knows no bfloat16."""
    t = t.detach()
    return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if t.dtype == torch.bfloat16 else t.numpy()


def random_tensors(seed, batch, heads, kv_heads, queries, keys, dim, dtype=torch.float32, value_dim=None):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, heads, queries, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, value_dim or dim))
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


def no_fallback(call, prefer="faster"):
    """The result of call(), which must have run on Tessera."""
    with tessera.torch.patched(prefer) as report:
        result = call()
    assert report.calls == 1 and not report.fallbacks, str(report)
    return result
