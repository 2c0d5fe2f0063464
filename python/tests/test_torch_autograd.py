"""Gradients of attend() on tensors of PyTorch, and the operator under torch.compile and torch.export."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
import tessera
from conftest import need

torch = need("torch")

import tessera.torch  # noqa: E402
from tessera import _torch_math  # noqa: E402
from tessera._options import Options, parse  # noqa: E402
from test_numpy import OPTIONS  # noqa: E402
from torch_helpers import no_fallback, pytorch_sdpa, random_tensors  # noqa: E402

GRADIENT_OPTIONS = [n for n in OPTIONS if n != "additive f16 mask"]


def to_torch(value, dtype):
    tensor = torch.from_numpy(value)
    return tensor.to(dtype) if tensor.dtype == torch.float32 else tensor


class Formula(torch.autograd.Function):
    """The backward pass of tessera::attend under the forward pass of plain PyTorch, so that float64 works."""

    @staticmethod
    def forward(options, *tensors):
        return _torch_math.forward(_torch_math.Inputs(*tensors), options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.options = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx, grad_output, grad_lse):
        x = _torch_math.Inputs(*ctx.saved_tensors)
        return None, *_torch_math.backward(x, ctx.options, grad_output, grad_lse), None


@pytest.mark.parametrize("name", GRADIENT_OPTIONS)
def test_gradcheck_of_the_recompute_formula(name):
    """The kernels have no float64, so finite differences in float64 test the formula that backward runs..."""
    options = dict(OPTIONS[name])
    q, k, v = (t.requires_grad_() for t in random_tensors(20, 3, 4, 2, 5, 6, 3, torch.float64, value_dim=2))
    tensors = {n: to_torch(options.pop(n), torch.float64) for n in list(options) if isinstance(options[n], np.ndarray)}
    if "mask" in tensors:
        mask = tensors["mask"]
        tensors["mask"] = mask[..., :5, :6] if mask.shape[-2:] == (23, 41) else mask[..., :6]
    if "key_lengths" in tensors:
        tensors["key_lengths"] = tensors["key_lengths"].clamp(max=6)
    window = options.get("window")
    if window is not None:
        options["window"] = (2, *window[1:]) if window[0] is not None else window
    extra = [tensors.get(n) for n in ("mask", "alibi", "sinks", "key_lengths")]
    extra = [t.contiguous().requires_grad_() if t is not None and t.is_floating_point() else t for t in extra]
    parsed = parse(options.get("causal"), options.get("window"), options.get("scale"), options.get("softcap"), None,
                   queries=5, keys=6, has_lengths=extra[3] is not None)  # fmt: skip

    def output_and_finite_lse(*tensors):
        out, lse = Formula.apply(parsed, *tensors)
        return out, lse[torch.isfinite(lse)]

    assert torch.autograd.gradcheck(output_and_finite_lse, (q, k, v, *extra))


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_through_the_kernel(name):
    """... and float32 gradients through the kernel are held against autograd over the plain formula."""
    q, k, v = (t.requires_grad_() for t in random_tensors(21, 3, 4, 2, 23, 41, 32))
    options = {n: to_torch(o, torch.float32) if isinstance(o, np.ndarray) else o for n, o in OPTIONS[name].items()}
    leaves = [q, k, v] + [t.requires_grad_() for n, t in options.items() if torch.is_tensor(t) and t.is_floating_point()]
    weight = torch.randn(q.shape, generator=torch.Generator().manual_seed(22))
    ours = torch.autograd.grad((tessera.attend(q, k, v, **options) * weight).sum(), leaves)

    tensors = _torch_math.Inputs(q, k, v, *(options.get(n) for n in ("mask", "alibi", "sinks", "key_lengths")))
    parsed = parse(options.get("causal"), options.get("window"), options.get("scale"), options.get("softcap"), None,
                   queries=23, keys=41, has_lengths="key_lengths" in options)  # fmt: skip
    plain = torch.autograd.grad((_torch_math.forward(tensors, parsed)[0] * weight).sum(), leaves)
    for got, want in zip(ours, plain, strict=True):
        want = torch.nan_to_num(want)  # autograd over logsumexp makes NaN of rows that see nothing; ours are 0
        torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("arguments", [{}, {"is_causal": True}, {"scale": 0.5}, {"enable_gqa": True}, {"mask": True}])
def test_gradients_match_pytorchs(arguments):
    arguments = dict(arguments)
    kv_heads = 2 if arguments.get("enable_gqa") else 4
    q, k, v = (t.requires_grad_() for t in random_tensors(23, 2, 4, kv_heads, 17, 17, 32))
    leaves = [q, k, v]
    if arguments.pop("mask", False):
        arguments["attn_mask"] = torch.randn(4, 17, 17, generator=torch.Generator().manual_seed(24)).requires_grad_()
        leaves.append(arguments["attn_mask"])
    weight = torch.randn(2, 4, 17, 32, generator=torch.Generator().manual_seed(25))
    ours = torch.autograd.grad((no_fallback(lambda: tessera.torch.sdpa(q, k, v, **arguments, prefer="tessera")) * weight).sum(), leaves)
    theirs = torch.autograd.grad((pytorch_sdpa(q, k, v, **arguments) * weight).sum(), leaves)
    for got, want in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def test_second_derivatives():
    q, k, v = (t.double().requires_grad_() for t in random_tensors(26, 1, 2, 1, 3, 4, 2))
    options = Options(align=1, right=0, softcap=3.0)

    def gradients(q, k, v):
        x = _torch_math.Inputs(q, k, v)
        out, lse = _torch_math.forward(x, options)
        return _torch_math.backward(x, options, torch.cos(out), torch.sin(lse))[:3]

    assert torch.autograd.gradcheck(gradients, (q, k, v))
    q, k, v = (t.detach().float().requires_grad_() for t in (q, k, v))
    (first,) = torch.autograd.grad(tessera.attend(q, k, v, causal="top-left").pow(2).sum(), q, create_graph=True)
    assert first.requires_grad and torch.autograd.grad(first.pow(2).sum(), k)[0].abs().sum() > 0


# Compilation.


def test_operator_passes_pytorchs_own_checks():
    q, k, v = (t.requires_grad_() for t in random_tensors(27, 2, 4, 2, 5, 7, 16))
    mask = torch.randn(5, 7)
    torch.library.opcheck(torch.ops.tessera.attend.default, (q, k, v, mask, None, None, None, 2, -1, 0, 0.0, 0.0, ""))
    bshd = [t.detach().transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    torch.library.opcheck(torch.ops.tessera.sdpa.default, (*(t.detach() for t in (q, k, v)), mask, False, 0.3))
    with pytest.raises(RuntimeError, match="tessera::sdpa has no gradient"):
        torch.ops.tessera.sdpa(q, k, v, None, False, None)
    torch.library.opcheck(torch.ops.tessera.sdpa.default, (*bshd, None, True, None))
    torch.library.opcheck(torch.ops.tessera.attend.default, (*bshd, None, None, None, None, 0, -1, -1, 0.3, 5.0, ""))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_without_graph_breaks(dynamic):
    def model(q, k, v):
        return tessera.torch.sdpa(q * 2, k, v, is_causal=True, prefer="tessera").transpose(1, 2).flatten(-2) + 1

    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for length in (7, 9):
        q, k, v = (t.requires_grad_() for t in random_tensors(28, 2, 4, 4, length, length, 16))
        got, want = compiled(q, k, v), model(q, k, v)
        torch.testing.assert_close(got, want)
        for a, b in zip(*(torch.autograd.grad(o.sum(), (q, k, v)) for o in (got, want)), strict=True):
            torch.testing.assert_close(a, b)


def test_exported():
    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return tessera.torch.sdpa(q, k, v, is_causal=True)

    tensors = random_tensors(29, 2, 4, 4, 7, 7, 16)
    exported = torch.export.export(Model(), tensors)
    assert "tessera.attend" in str(exported.graph)  # which has a gradient
    torch.testing.assert_close(exported.module()(*tensors), pytorch_sdpa(*tensors, is_causal=True), atol=1e-5, rtol=1e-5)


def test_no_leak_with_gradients():
    q, k, v = (t.requires_grad_() for t in random_tensors(38, 1, 2, 2, 2, 8, 16))
    alive = lambda: sum(torch.is_tensor(o) for o in gc.get_objects())  # noqa: E731
    for _ in range(5):
        tessera.attend(q, k, v).sum().backward()
    gc.collect()
    before, counts = alive(), sys.getrefcount(q)
    for _ in range(200):
        tessera.attend(q, k, v).sum().backward()
    gc.collect()
    assert alive() <= before and sys.getrefcount(q) == counts
