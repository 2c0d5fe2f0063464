"""The one list of calls that Tessera computes correctly, but slower than PyTorch.

A drop-in must never make a model slower, so sdpa(), patched() and the attention of Hugging Face leave these to
PyTorch unless told prefer="tessera"; attend() does not ask. A row goes when a kernel comes that is ahead:
`scripts/prefer` times an example of every row beside PyTorch.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch

from ._torch_ops import wants_gradient

CHOICES = ("faster", "tessera")


class Row(NamedTuple):
    name: str
    devices: tuple[str, ...]
    applies: Callable[..., bool]  # (query, key, value, mask), tensors whose last two dimensions are rows and head
    reason: str
    measured: str  # the evidence: PyTorch's time / Tessera's
    example: dict[str, Any]  # for scripts/prefer: shapes [b, h, s, d], dtype, and what else the call has


def _has_additive_mask(query, key, value, mask) -> bool:
    return mask is not None and mask.dtype != torch.bool


ROWS = (
    Row(
        "training",
        ("cpu", "cuda"),
        wants_gradient,
        "a gradient is wanted, and Tessera has no backward kernel yet: its backward pass recomputes and stores the scores",
        "2 Zen 3 cores, AVX2, forward and backward: float32 0.18 to 0.74 from 1,024 down to 128 rows; bfloat16 1.0 to 2.6, "
        "because PyTorch has no fast bfloat16 there, but memory grows with rows x keys; H200, 2 x 8 heads of 512 rows, float32: 0.12",
        {"query": (2, 8, 512, 64), "key": (2, 8, 512, 64), "dtype": "float32", "gradient": True},
    ),
    Row(
        "additive mask on a GPU",
        ("cuda",),
        _has_additive_mask,
        "attn_mask is additive on a GPU, where Tessera's tiles are too large for few rows and heads",
        "H200, bfloat16: 1 x 8 heads of 128 rows 1.69 to 1.75, 1 x 8 and 2 x 8 of 512 0.67 to 0.77, 8 x 12 of 512 0.79 to 0.83, "
        "1 x 32 of 1,024, dim 128, 0.64 to 0.82, 4 x 16 of 1,024 1.01 to 1.05, 1 x 16 of 4,096, dim 128, 0.95 to 1.22, 1 x 8 of 2,048, "
        "dim 256, 1.36 to 1.71; boolean masks of the same sizes 0.98 to 3.44, not sent away",
        {"query": (1, 8, 512, 64), "key": (1, 8, 512, 64), "dtype": "bfloat16", "mask": "additive"},
    ),
)
# Whether the table has anything to say about a call on a CPU that wants no gradient: asking costs a microsecond.
FORWARD_ON_CPU = any("cpu" in row.devices and row.applies is not wants_gradient for row in ROWS)
_BY_DEVICE = {kind: tuple(row for row in ROWS if kind in row.devices) for kind in ("cpu", "cuda")}


def faster_elsewhere(query, key, value, mask) -> str | None:
    """The sentence why PyTorch would be faster at this, or None."""
    for row in _BY_DEVICE.get(query.device.type, ()):
        if row.applies(query, key, value, mask):
            return f"{row.reason} (prefer='tessera' insists)"
    return None


def check_choice(prefer: str) -> None:
    if prefer not in CHOICES:
        raise ValueError(f"prefer is {prefer!r}; 'faster' (PyTorch where it is faster) or 'tessera' is accepted")
