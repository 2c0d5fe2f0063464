"""bfloat16 without PyTorch: NumPy has no such type of its own, ml_dtypes gives it one.

    python examples/python/bfloat16.py
"""

import sys

try:
    import ml_dtypes
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import tessera

rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 4, 64, 64)).astype(ml_dtypes.bfloat16) for _ in range(3))
out = tessera.attend(q, k, v, causal="top-left")
wide = tessera.attend(*(t.astype(np.float32) for t in (q, k, v)), causal="top-left")
print("result", out.dtype, "off by at most", np.abs(out.astype(np.float32) - wide).max())
assert out.dtype == ml_dtypes.bfloat16
assert np.allclose(out.astype(np.float32), wide, atol=1e-2, rtol=1e-2)
