"""Tensors of PyTorch on a GPU: parity with PyTorch, the current stream, CUDA graphs, gradients, the drop-in."""

from __future__ import annotations

import pytest
from torch_helpers import no_fallback, pytorch_sdpa, random_tensors, torch

import torch.nn.functional as F
import tessera
import tessera.torch

HALF = [torch.float16, torch.bfloat16]
# batch, heads, kv_heads, queries, keys, dim
SHAPES = [
    (2, 8, 8, 256, 256, 64),
    (1, 8, 2, 128, 200, 128),
    (3, 4, 1, 1, 777, 128),
    (1, 4, 4, 65, 63, 96),
    (2, 2, 2, 33, 70, 40),
    (1, 2, 1, 100, 130, 256),
]


@pytest.fixture(autouse=True)
def needs_gpu():
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no CUDA device here")


def on_gpu(*arguments):
    """The tensors on the GPU; skips where the library has no kernels for it, once its refusal is checked."""
    q, k, v = (t.cuda() for t in random_tensors(*arguments))
    try:
        tessera.plan(q, k, v)
    except tessera.DeviceUnavailable as error:
        assert "device.kind is 2 (cuda), but" in str(error)
        pytest.skip(f"refused, as it should be: {error}")
    return q, k, v


def tolerance(dtype):
    return {"atol": 2e-3, "rtol": 2e-3} if dtype == torch.float16 else {"atol": 1.6e-2, "rtol": 1.6e-2}


def test_without_kernels_the_refusal_is_clear_and_pytorch_computes():
    q, k, v = (t.cuda() for t in random_tensors(18, 1, 2, 2, 5, 7, 64, torch.float16))
    try:
        tessera.plan(q, k, v)
    except tessera.DeviceUnavailable as error:
        with pytest.raises(tessera.DeviceUnavailable, match="device.kind is 2 .cuda., but"):
            tessera.attend(q, k, v)
        with tessera.torch.patched() as report:
            out = F.scaled_dot_product_attention(q, k, v)
        assert out.is_cuda and str(error) in str(report)
    else:
        pytest.skip("this build has CUDA kernels")


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("causal", [None, "top-left", "bottom-right"])
@pytest.mark.parametrize("shape", SHAPES)
def test_parity_with_pytorch(shape, causal, dtype):
    q, k, v = on_gpu(21, *shape, dtype)
    queries, keys = q.shape[2], k.shape[2]
    mask = None
    if causal:
        offset = keys - queries if causal == "bottom-right" else 0
        mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(offset)
    out, lse = tessera.attend(q, k, v, causal=causal, return_lse=True)
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    theirs = pytorch_sdpa(q, wide_k, wide_v, attn_mask=mask)
    seen = slice(None) if mask is None else mask.any(dim=-1)  # PyTorch has NaN where nothing is visible
    torch.testing.assert_close(out[:, :, seen], theirs[:, :, seen], **tolerance(dtype))
    scores = q.float() @ wide_k.float().transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    torch.testing.assert_close(lse, torch.logsumexp(scores, dim=-1), atol=2e-3, rtol=1e-3)
    if mask is not None:
        assert (out[:, :, ~mask.any(dim=-1)] == 0).all()


@pytest.mark.parametrize("dtype", HALF)
def test_the_drop_in_runs_on_the_gpu(dtype):
    q, k, v = on_gpu(22, 2, 8, 2, 96, 96, 64, dtype)
    wide_k, wide_v = (t.repeat_interleave(4, dim=1) for t in (k, v))
    ours = no_fallback(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))
    torch.testing.assert_close(ours, pytorch_sdpa(q, wide_k, wide_v, is_causal=True), **tolerance(dtype))


def test_a_transposed_layout_needs_no_copy():
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in on_gpu(23, 2, 4, 4, 70, 90, 64, torch.float16))
    out = tessera.attend(q, k, v)
    assert out.stride() == q.stride()
    torch.testing.assert_close(out, pytorch_sdpa(q, k, v), **tolerance(torch.float16))


def test_the_current_stream_is_used():
    q, k, v = on_gpu(24, 1, 4, 4, 128, 128, 64, torch.float16)
    wanted = tessera.attend(q, k, v)
    torch.cuda.synchronize()
    late = torch.zeros_like(q)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)  # some ten milliseconds: on any other stream q would still be zero
        late.copy_(q)
        got = tessera.attend(late, k, v)
        torch.cuda.current_stream().synchronize()
    assert torch.equal(got, wanted)


def test_a_cuda_graph_can_hold_a_call():
    q, k, v = on_gpu(25, 2, 4, 2, 64, 100, 64, torch.bfloat16)
    out = torch.empty_like(q)
    tessera.attend(q, k, v, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tessera.attend(q, k, v, out=out)
    q.mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, tessera.attend(q, k, v))


def test_options_and_gradients():
    q, k, v = on_gpu(26, 2, 4, 2, 40, 50, 64, torch.float16)
    lengths = torch.tensor([50, 23], device="cuda", dtype=torch.int32)
    sinks = torch.randn(4, device="cuda")
    got = tessera.attend(q, k, v, causal="bottom-right", key_lengths=lengths, sinks=sinks, softcap=20.0)
    host = tessera.attend(
        q.cpu(), k.cpu(), v.cpu(), causal="bottom-right", key_lengths=lengths.cpu(), sinks=sinks.cpu(), softcap=20.0
    )
    torch.testing.assert_close(got.cpu(), host, **tolerance(torch.float16))
    q.requires_grad_()
    tessera.attend(q, k, v).square().sum().backward()
    theirs = q.detach().clone().requires_grad_()
    wide_k, wide_v = (t.repeat_interleave(2, dim=1) for t in (k, v))
    pytorch_sdpa(theirs, wide_k, wide_v).square().sum().backward()
    torch.testing.assert_close(q.grad, theirs.grad, atol=1e-2, rtol=1e-2)


def test_host_and_gpu_do_not_mix():
    q, k, v = on_gpu(27, 1, 2, 2, 8, 8, 64, torch.float16)
    with pytest.raises(ValueError, match="k is on the CPU, but q is on cuda:0"):
        tessera.attend(q, k.cpu(), v)
    with pytest.raises(ValueError, match="out is on the CPU"):
        tessera.attend(q, k, v, out=torch.empty_like(q, device="cpu"))


def test_what_pytorch_computes_faster_goes_there():
    q, k, v = on_gpu(28, 1, 8, 8, 70, 600, 64, torch.bfloat16)
    mask = torch.randn(70, 600, device="cuda").to(torch.bfloat16)
    with tessera.torch.patched() as report:
        theirs = F.scaled_dot_product_attention(q, k, v, mask)
    assert report.calls == 0 and "attn_mask is additive on a GPU" in str(report)
    ours = no_fallback(lambda: F.scaled_dot_product_attention(q, k, v, mask), prefer="tessera")
    torch.testing.assert_close(ours, theirs, **tolerance(torch.bfloat16))


def test_few_rows_are_computed_here():
    q, k, v = on_gpu(29, 1, 8, 2, 8, 3000, 64, torch.bfloat16)
    for rows in (1, 8):
        few = q[:, :, :rows]
        theirs = F.scaled_dot_product_attention(few, k, v, enable_gqa=True)
        ours = no_fallback(lambda: F.scaled_dot_product_attention(few, k, v, enable_gqa=True))  # noqa: B023
        torch.testing.assert_close(ours, theirs, **tolerance(torch.bfloat16))
