"""What a call costs before any arithmetic: microseconds per call on a problem of one row.

    python examples/python/host_cost.py

Every row is the best of many short rounds, interleaved, on one thread, so that a busy machine disturbs all
alike. `nothing to do` is a problem with no batch: argument handling and validation, no kernel.
"""

import sys
import time

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import tessera

tessera.set_threads(1)
rows = {}
a = np.zeros((1, 1, 1, 64), np.float32)
a_out = np.empty_like(a)
nothing, nothing_out = np.empty((0, 1, 1, 64), np.float32), np.empty((0, 1, 1, 64), np.float32)
rows["tessera.attend, NumPy"] = lambda: tessera.attend(a, a, a)
rows["tessera.attend, NumPy, out="] = lambda: tessera.attend(a, a, a, out=a_out)
rows["tessera.attend, NumPy, out=, nothing to do"] = lambda: tessera.attend(nothing, nothing, nothing, out=nothing_out)

try:
    import torch
    import torch.nn.functional as F

    import tessera.torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    t = torch.zeros(1, 1, 1, 64)
    t_out = torch.empty_like(t)
    rows["tessera.attend, PyTorch"] = lambda: tessera.attend(t, t, t)
    rows["tessera.attend, PyTorch, out="] = lambda: tessera.attend(t, t, t, out=t_out)
    rows["tessera.torch.sdpa"] = lambda: tessera.torch.sdpa(t, t, t)
    rows["the operator tessera::sdpa"] = lambda: torch.ops.tessera.sdpa.default(t, t, t, None, False, None)
    rows["the operator tessera::attend"] = lambda: tessera.torch.attend(t, t, t)
    rows["F.scaled_dot_product_attention"] = lambda: F.scaled_dot_product_attention(t, t, t)
    rows["torch.add, for scale"] = lambda: torch.add(t, t)
    if torch.cuda.is_available():  # calls that return before the GPU is done: what the host pays to ask
        g = torch.zeros(1, 8, 256, 64, device="cuda", dtype=torch.float16)
        g_out = torch.empty_like(g)
        rows["tessera.attend, CUDA, out="] = lambda: tessera.attend(g, g, g, out=g_out)
        rows["F.scaled_dot_product_attention, CUDA"] = lambda: F.scaled_dot_product_attention(g, g, g)
        rows["torch.add, CUDA, out=, for scale"] = lambda: torch.add(g, g, out=g_out)
except ImportError as error:
    print(f"without PyTorch: {error}")

try:
    import jax

    import tessera.jax

    j = jax.device_put(a, jax.devices("cpu")[0])
    rows["tessera.attend, JAX"] = lambda: tessera.attend(j, j, j)
    own = jax.jit(jax.nn.dot_product_attention)
    rows["jax.nn.dot_product_attention, jitted"] = lambda: own(j, j, j)
except ImportError as error:
    print(f"without JAX: {error}")

best = dict.fromkeys(rows, float("inf"))
for call in rows.values():
    for _ in range(20):
        call()
for _ in range(40):
    for name, call in rows.items():
        began = time.perf_counter()
        for _ in range(50):
            call()
        best[name] = min(best[name], (time.perf_counter() - began) / 50 * 1e6)
for name, microseconds in best.items():
    print(f"{microseconds:8.2f} µs  {name}")
