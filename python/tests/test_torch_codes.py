"""attend() on 8-bit tensors of PyTorch: the bits that NumPy arrays of the same codes give."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import reference
import tessera
from conftest import need

torch = need("torch")
import tessera.torch  # noqa: E402

FORMATS = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


def pair(name, seed=0, device="cpu"):
    """The same codes as arrays and as tensors."""
    arrays = [a.astype(FORMATS[name]) for a in reference.random_inputs(seed, 2, 4, 2, 70, 90, 64)]
    tensors = [torch.from_numpy(a.view(np.uint8)).view(getattr(torch, name)).to(device) for a in arrays]
    return arrays, tensors


@pytest.mark.parametrize("name", FORMATS)
def test_tensors_give_what_arrays_give(name):
    arrays, tensors = pair(name)
    scale = np.linspace(0.5, 2, 2 * 2 * 64, dtype=np.float32).reshape(2, 2, 1, 64)
    want = tessera.attend(*arrays, value_scales=scale, key_scales=np.float32([0.5]))
    for function in (tessera.attend, tessera.torch.attend):
        got = function(*tensors, value_scales=torch.from_numpy(scale), key_scales=torch.tensor(0.5))
        assert got.dtype == torch.float16 and np.array_equal(got.numpy(), want)
    wide = tessera.attend(*tensors, output_dtype=torch.bfloat16)
    assert wide.dtype == torch.bfloat16
    assert torch.equal(tessera.attend(*tensors, output_dtype="bfloat16"), wide)
    out = torch.empty(2, 4, 70, 64)
    assert tessera.attend(*tensors, out=out) is out
    assert np.array_equal(out.numpy(), tessera.attend(*arrays, output_dtype="float32"))


@pytest.mark.parametrize("name", FORMATS)
def test_transposed_values(name):
    arrays, (q, k, v) = pair(name, 1)
    columns = v.view(torch.uint8).mT.contiguous().view(v.dtype).mT
    assert columns.stride(2) == 1
    assert np.array_equal(tessera.attend(q, k, columns).numpy(), tessera.attend(*arrays))


@pytest.mark.parametrize("name", [*FORMATS, "int8"])
def test_a_cache_beside_a_wider_query(name):
    q, k, v = reference.random_inputs(3, 2, 4, 2, 7, 90, 64)
    kind = FORMATS.get(name, np.int8)
    k8, v8 = ((20 * t).astype(kind) for t in (k, v))
    tensors = [torch.from_numpy(t.view(np.uint8)).view(getattr(torch, name)) for t in (k8, v8)]
    half = np.float32([1 / 32])
    for given in ({}, {"key_scales": half}):
        want = tessera.attend(q, k8, v8, **given)
        as_torch = {key: torch.from_numpy(value) for key, value in given.items()}
        for function in (tessera.attend, tessera.torch.attend):
            got = function(torch.from_numpy(q), *tensors, **as_torch)
            assert got.dtype == torch.float32 and np.array_equal(got.numpy(), want)
    got = tessera.torch.attend(torch.from_numpy(q).bfloat16(), *tensors)
    assert got.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="8-bit k is for calls that run at once"):
        tessera.torch.attend(torch.from_numpy(q).to("meta"), *(t.to("meta") for t in tensors))


def test_graphs_and_fake_tensors_refuse_it():
    _, (q, k, v) = pair("float8_e4m3fn")
    with pytest.raises(ValueError, match="8-bit q is for calls that run at once"):
        tessera.torch.attend(q.to("meta"), k.to("meta"), v.to("meta"))


def test_other_8_bit_types_are_refused_by_name():
    x = torch.zeros(1, 1, 4, 8, dtype=torch.uint8)
    with pytest.raises(TypeError, match="uint8"):
        tessera.attend(x, x, x)
    if hasattr(torch, "float8_e4m3fnuz"):
        y = x.view(torch.float8_e4m3fnuz)
        with pytest.raises(Exception):  # PyTorch's words or ours
            tessera.attend(y, y, y)


@pytest.mark.parametrize("name", FORMATS)
def test_cuda(name):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    arrays, tensors = pair(name, 2, "cuda")
    try:
        got = tessera.attend(*tensors, key_scales=torch.full((1,), 0.5, device="cuda"), output_dtype="float32")
    except tessera.DeviceUnavailable as why:
        pytest.skip(str(why))
    want = tessera.attend(*arrays, key_scales=np.float32([0.5]), output_dtype="float32")
    assert np.abs(got.cpu().numpy() - want).max() < 0.02 * np.abs(want).max()


def on_gpu(x, **options):
    """quantise() of x on the GPU, as arrays; skips where there is none, or no kernels for it."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    try:
        return [part.cpu().view(torch.uint8).numpy() for part in tessera.quantise(x.cuda(), **options)]
    except tessera.DeviceUnavailable as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("scales", ["tensor", "head", "block64", "channel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_quantise_on_a_gpu_has_the_bits_of_the_cpu(dtype, scales):
    x = torch.from_numpy(reference.random_inputs(3, 2, 4, 2, 1100, 90, 64)[0]).to(dtype)
    for options in ({"smooth": True}, {"hadamard": True}, {"transpose": True, "dtype": torch.float8_e5m2}):
        want = tessera.quantise(x, scales=scales, **options)
        with torch.cuda.stream(torch.cuda.Stream() if torch.cuda.is_available() else None):
            got = on_gpu(x, scales=scales, **options)
        for a, b in zip(got, want, strict=True):
            assert np.array_equal(a, b.view(torch.uint8).numpy()), (dtype, scales, options)


def test_quantise_inside_a_cuda_graph():
    x = torch.from_numpy(reference.random_inputs(4, 2, 4, 2, 70, 90, 64)[0])
    on_gpu(x)  # skips; and the second time nothing is loaded any more
    there, graph = torch.zeros_like(x, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = tessera.quantise(there, scales="head", smooth=True)
    there.copy_(x)
    graph.replay()
    for a, b in zip(results, tessera.quantise(x, scales="head", smooth=True), strict=True):
        assert torch.equal(a.cpu().view(torch.uint8), b.view(torch.uint8))
