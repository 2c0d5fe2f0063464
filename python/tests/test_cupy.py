"""Arrays of CuPy: the device is read, and the library says what it cannot do yet."""

from __future__ import annotations

import pytest
from conftest import need

cupy = need("cupy")

import tessera  # noqa: E402


def test_cupy_arrays_say_not_yet():
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        pytest.skip(f"CuPy sees no CUDA device here ({error})")
    if count == 0:
        pytest.skip("CuPy sees no CUDA device here")
    q = cupy.zeros((1, 2, 5, 16), cupy.float16)
    with pytest.raises(tessera.DeviceUnavailable, match="this build of Tessera has no CUDA kernels"):
        tessera.attend(q, q, q)
    assert "device unavailable" in tessera.explain(q, q, q)
