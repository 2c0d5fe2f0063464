"""Arrays of CuPy: computed where they are, on CuPy's current stream, or refused in a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from conftest import need

cupy = need("cupy")

import tessera  # noqa: E402


@pytest.fixture(autouse=True)
def needs_gpu():
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        pytest.skip(f"CuPy sees no CUDA device here ({error})")
    if count == 0:
        pytest.skip("CuPy sees no CUDA device here")


def test_cupy_arrays():
    host = reference.random_inputs(5, 1, 4, 2, 33, 65, 64, dtype=np.float16)
    q, k, v = (cupy.asarray(t) for t in host)
    try:
        tessera.plan(q, k, v)
    except tessera.DeviceUnavailable as error:
        with pytest.raises(tessera.DeviceUnavailable):
            tessera.attend(q, k, v)
        assert "device.kind is 2 (cuda), but this build of Tessera has no CUDA kernels" in str(error)
        assert "device unavailable" in tessera.explain(q, k, v)
        return
    with cupy.cuda.Stream(non_blocking=True) as stream:
        out, lse = tessera.attend(q, k, v, causal="bottom-right", return_lse=True)
        stream.synchronize()
    truth, true_lse = reference.attend(*host, causal="bottom-right")[:2]
    np.testing.assert_allclose(cupy.asnumpy(out).astype(np.float64), truth, atol=3e-3)
    np.testing.assert_allclose(cupy.asnumpy(lse), true_lse, atol=1e-3)
