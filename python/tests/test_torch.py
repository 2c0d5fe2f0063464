"""attend() and tessera.torch on tensors of PyTorch: parity with its own attention, the drop-in, fallbacks."""

from __future__ import annotations

import inspect
import re
import threading

import numpy as np
import pytest
import reference
import tessera
from conftest import need

torch = need("torch")

import tessera.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from test_numpy import OPTIONS, SEED_SHAPES  # noqa: E402
from test_process import assert_no_growth  # noqa: E402
from torch_helpers import DTYPES, NUMPY_DTYPES, no_fallback, pytorch_sdpa, random_tensors, to_numpy  # noqa: E402

# Parity with F.scaled_dot_product_attention.

@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SEED_SHAPES)
def test_parity_at_the_seed_shapes(name, dtype, causal):
    batch, heads, length, dim = SEED_SHAPES[name]
    q, k, v = random_tensors(1, batch, heads, heads, length, length, dim, dtype)
    ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v, is_causal=causal))
    # PyTorch's answer from the same values in float32: its half-precision CPU path rounds more than we may.
    theirs = pytorch_sdpa(q.float(), k.float(), v.float(), is_causal=causal)
    torch.testing.assert_close(ours.float(), theirs, atol=1e-2, rtol=1e-2)
    # The derived bound needs the float64 oracle, which is slow: the first and the last head.
    for b, h in ((0, 0), (batch - 1, heads - 1)):
        part = [to_numpy(t[b : b + 1, h : h + 1].contiguous()) for t in (q, k, v)]
        got = to_numpy(ours[b : b + 1, h : h + 1].contiguous())
        reference.check(got, *part, causal="top-left" if causal else None, where=name)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parity_with_pytorch_in_the_same_dtype(dtype, causal):
    q, k, v = random_tensors(2, 2, 8, 8, 256, 256, 64, dtype)
    ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v, is_causal=causal))
    torch.testing.assert_close(ours, pytorch_sdpa(q, k, v, is_causal=causal), atol=1e-2, rtol=1e-2)


MASK_SHAPES = [(7,), (5, 7), (4, 5, 7), (1, 4, 5, 7), (2, 1, 1, 7), (2, 4, 5, 7), (2, 1, 5, 7)]


@pytest.mark.parametrize("shape", MASK_SHAPES)
@pytest.mark.parametrize("kind", ["bool", "float", "half"])
def test_masks(shape, kind):
    dtype = torch.float16 if kind == "half" else torch.float32
    q, k, v = random_tensors(3, 2, 4, 4, 5, 7, 16, dtype)
    mask = torch.randn(shape, generator=torch.Generator().manual_seed(4))
    mask = mask > -0.5 if kind == "bool" else mask.to(dtype)
    ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v, attn_mask=mask))
    # PyTorch takes masks of two dimensions or more.
    theirs = pytorch_sdpa(q, k, v, attn_mask=mask if mask.dim() > 1 else mask[None])
    torch.testing.assert_close(ours, theirs, atol=2e-3 if kind == "half" else 1e-5, rtol=1e-3)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"scale": 0.0},
        {"scale": 0.3, "is_causal": True},
    ],
)
@pytest.mark.parametrize("shape", [(2, 4, 9, 16), (4, 9, 16), (9, 16), (1, 1, 1, 8), (2, 3, 1, 64)])
def test_ranks_and_arguments(shape, arguments):
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(shape, generator=generator) for _ in range(3))
    ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v, **arguments))
    theirs = pytorch_sdpa(q, k, v, **arguments)
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_causal_is_top_left():
    q, k, v = random_tensors(6, 1, 2, 2, 5, 9, 16)
    ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v, is_causal=True))
    torch.testing.assert_close(ours, pytorch_sdpa(q, k, v, is_causal=True), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours[:, :, 0], v[:, :, 0])  # the first query sees the first key alone


def test_grouped_heads_only_when_asked():
    q, k, v = random_tensors(7, 2, 8, 2, 5, 9, 16)
    ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v, enable_gqa=True))
    torch.testing.assert_close(ours, pytorch_sdpa(q, k, v, enable_gqa=True), atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError):  # PyTorch's own refusal
        tessera.torch.sdpa(q, k, v)


def test_batches_that_broadcast():
    q, _, _ = random_tensors(8, 3, 4, 4, 5, 9, 16)
    _, k, v = random_tensors(9, 1, 1, 1, 5, 9, 16)
    ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v))
    expanded = [t.expand(3, 4, -1, -1) for t in (k, v)]
    torch.testing.assert_close(ours, pytorch_sdpa(q, *expanded), atol=1e-5, rtol=1e-5)


def test_rows_that_see_nothing_are_zero():
    q, k, v = random_tensors(10, 1, 1, 1, 4, 4, 8)
    mask = torch.tensor([[True] * 4, [False] * 4, [True] * 4, [False] * 4])
    ours = tessera.torch.sdpa(q, k, v, attn_mask=mask)
    assert not ours[0, 0, 1].any() and not ours[0, 0, 3].any() and ours[0, 0, 0].any()
    torch.testing.assert_close(ours, pytorch_sdpa(q, k, v, attn_mask=mask), atol=1e-5, rtol=1e-5)


def test_layouts():
    q, k, v = random_tensors(11, 2, 4, 4, 9, 9, 16)
    want = tessera.torch.sdpa(q, k, v)
    bshd = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    got = tessera.torch.sdpa(*bshd)
    assert torch.equal(got, want) and got.stride() == bshd[0].stride()
    # A last dimension that is not contiguous: attend() refuses, the drop-in copies, as PyTorch would.
    steps = [torch.stack((t, t), dim=-1).flatten(-2)[..., ::2] for t in (q, k, v)]
    assert steps[0].stride(-1) == 2
    assert torch.equal(no_fallback(lambda: tessera.torch.sdpa(*steps)), want)
    with pytest.raises(ValueError, match="must be contiguous"):
        tessera.attend(*steps)
    sliced = [torch.cat((t, t), dim=-1)[..., 16:] for t in (q, k, v)]
    assert torch.equal(tessera.attend(*sliced), want)


def test_autocast():
    q, k, v = random_tensors(12, 2, 4, 4, 9, 9, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = no_fallback(lambda: tessera.torch.sdpa(q, k, v))
        theirs = pytorch_sdpa(q, k, v)
    assert ours.dtype == theirs.dtype == torch.bfloat16
    torch.testing.assert_close(ours, theirs, atol=1e-2, rtol=1e-2)


# attend() itself.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name, dtype):
    arrays = reference.random_inputs(13, 3, 4, 2, 23, 41, 32, dtype=NUMPY_DTYPES[dtype])
    tensors = [torch.from_numpy(a.view(np.int16)).view(dtype) if a.itemsize == 2 else torch.from_numpy(a) for a in arrays]
    options = {n: torch.from_numpy(o) if isinstance(o, np.ndarray) else o for n, o in OPTIONS[name].items()}
    for attend in (tessera.attend, tessera.torch.attend):
        out, lse = attend(*tensors, return_lse=True, **options)
        assert type(out) is torch.Tensor and out.dtype == dtype
        reference.check(to_numpy(out), *arrays, lse=to_numpy(lse), where=name, **OPTIONS[name])


def test_the_two_readers_of_options_agree():
    """The C binding and _options.parse() are two readers of one vocabulary; their refusals must match too."""
    q, k, v = random_tensors(14, 1, 2, 2, 6, 8, 16)
    for options in (
        {"causal": "up"},
        {"window": (3, 2)},
        {"window": "wide"},
        {"window": (-2, 0, "top-left")},
        {"window": True},
        {"window": (True, 0, "top-left")},
        {"window": (3.0, 0, "top-left")},
        {"window": (2**70, 0, "top-left")},
        {"window": 2.5},
        {"window": np.array([1, 2, 3, 4])},
        {"window": (1, 2, "up")},
        {"causal": "top-left", "window": (3, 2)},
        {"causal": "top-left", "window": (3, 0, "bottom-right")},
    ):
        with pytest.raises(ValueError) as in_c:
            tessera.attend(q, k, v, **options)
        with pytest.raises(ValueError) as in_python:
            tessera.torch.attend(q, k, v, **options)
        assert str(in_c.value) == str(in_python.value)
    for window in (np.int64(3), np.array(3), np.array([3, 0]), (np.int32(3), np.uint8(0)), torch.tensor(3)):
        want = tessera.attend(q, k, v, causal="top-left", window=(3, 0))
        assert torch.equal(tessera.attend(q, k, v, causal="top-left", window=window), want)
        assert torch.equal(tessera.torch.attend(q, k, v, causal="top-left", window=window), want)


def test_results_and_requires_grad():
    q, k, v = random_tensors(15, 1, 2, 2, 5, 7, 16)
    q.requires_grad_()
    assert tessera.attend(q, k, v).requires_grad
    with torch.no_grad():
        assert not tessera.attend(q, k, v).requires_grad
    with torch.inference_mode():
        assert tessera.attend(q, k, v).is_inference()
    with pytest.raises(ValueError, match="out= has no gradient"):
        tessera.attend(q, k, v, out=torch.empty_like(q))
    weight = torch.nn.Parameter(k)
    assert tessera.attend(q.detach(), weight, v).requires_grad


def test_mixed_frameworks_on_one_device():
    q, k, v = random_tensors(16, 1, 2, 2, 5, 7, 16)
    mask = np.ones((5, 7), bool)
    assert torch.equal(tessera.attend(q, k.numpy(), v, mask=mask), tessera.attend(q, k, v))


def test_wrong_dtype_and_device():
    q, k, v = random_tensors(17, 1, 2, 2, 5, 7, 16)
    with pytest.raises(TypeError, match="q has dtype float64"):
        tessera.attend(q.double(), k, v)
    with pytest.raises(ValueError, match="key.dtype is bf16, but query.dtype is f32"):
        tessera.attend(q, k.bfloat16(), v)


def need_cuda():
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no CUDA device here")


def test_devices_must_agree():
    need_cuda()
    q, k, v = random_tensors(19, 1, 2, 2, 5, 7, 16)
    with pytest.raises(ValueError, match="k is on cuda:0, but q is on the CPU"):
        tessera.attend(q, k.cuda(), v)


# The drop-in in models that know nothing of it.


class Block(torch.nn.Module):
    """A transformer block as people write it: pre-norm, attention through F, a small MLP."""

    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(dim), torch.nn.LayerNorm(dim)
        self.qkv, self.out = torch.nn.Linear(dim, 3 * dim), torch.nn.Linear(dim, dim)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(dim, 4 * dim), torch.nn.GELU(), torch.nn.Linear(4 * dim, dim))

    def forward(self, x):
        batch, length, dim = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
        return x + self.mlp(self.norm2(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_transformer_block_with_and_without(dtype):
    torch.manual_seed(30)
    model = torch.nn.Sequential(Block(), Block()).to(dtype)
    x = torch.randn(2, 33, 64).to(dtype)
    want = model(x)
    want_grads = torch.autograd.grad(want.float().pow(2).mean(), list(model.parameters()))
    with tessera.torch.patched(prefer="tessera") as report:
        got = model(x)
        got_grads = torch.autograd.grad(got.float().pow(2).mean(), list(model.parameters()))
    assert report.calls == 2 and not report.fallbacks, str(report)
    atol = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(got, want, atol=atol, rtol=1e-2)
    for a, b in zip(got_grads, want_grads, strict=True):
        torch.testing.assert_close(a, b, atol=atol, rtol=5e-2)


def test_pytorchs_own_modules():
    torch.manual_seed(31)
    attention = torch.nn.MultiheadAttention(64, 4, batch_first=True).train()
    x = torch.randn(2, 9, 64)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[0, 6:] = True
    for options in ({}, {"key_padding_mask": padding}):
        want = attention(x, x, x, need_weights=False, **options)[0]
        got = no_fallback(lambda: attention(x, x, x, need_weights=False, **options)[0], prefer="tessera")
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def test_patched_restores_and_nests():
    with tessera.torch.patched() as outer:
        assert F.scaled_dot_product_attention is tessera.torch.sdpa
        with tessera.torch.patched() as inner:
            F.scaled_dot_product_attention(*random_tensors(32, 1, 1, 1, 2, 2, 8))
        assert F.scaled_dot_product_attention is tessera.torch.sdpa
    assert F.scaled_dot_product_attention is pytorch_sdpa and outer.calls == inner.calls == 1
    with pytest.raises(ZeroDivisionError), tessera.torch.patched():
        raise ZeroDivisionError
    assert F.scaled_dot_product_attention is pytorch_sdpa


def test_signature_is_pytorchs():
    parameters = inspect.signature(tessera.torch.sdpa).parameters
    names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert list(parameters) == [*names, "prefer"]  # the one more
    assert [p.default for p in parameters.values()][3:] == [None, 0.0, False, None, False, "faster"]
    assert parameters["scale"].kind is parameters["enable_gqa"].kind is inspect.Parameter.KEYWORD_ONLY


FALLBACKS = {
    "dropout": (lambda q, k, v: ((q, k, v), {"dropout_p": 0.5}), "dropout_p is 0.5"),
    "double": (lambda q, k, v: ((q.double(), k.double(), v.double()), {}), "query is torch.float64"),
    "rank 5": (lambda q, k, v: ((q[None], k[None], v[None]), {}), "ranks 5, 5, 5"),
    "wide heads": (lambda q, k, v: ((q.repeat(1, 1, 1, 65),) * 3, {}), "head dimension 1040"),
    "double mask": (lambda q, k, v: ((q.double(), k.double(), v.double(), torch.zeros(5, 5).double()), {}), "float64"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALLBACKS)
def test_fallbacks_are_computed_and_explained(name):
    change, why = FALLBACKS[name]
    args, options = change(*random_tensors(33, 1, 2, 2, 5, 5, 16))
    torch.manual_seed(34)
    want = pytorch_sdpa(*args, **options)
    before = tessera.torch.fallbacks().total()
    torch.manual_seed(34)
    with tessera.torch.patched() as report:
        got = F.scaled_dot_product_attention(*args, **options)
    assert torch.equal(got, want)
    assert why in tessera.torch.last_fallback() and why in str(report)
    assert tessera.torch.fallbacks().total() == before + 1
    assert why in tessera.torch.why_not(*args, **options)


def test_causal_with_a_mask_is_what_pytorch_makes_of_it():
    """Some versions compute it, and 2.15 refuses it."""
    args = (*random_tensors(33, 1, 2, 2, 5, 5, 16), torch.ones(5, 5, dtype=torch.bool))
    assert "both given" in tessera.torch.why_not(*args, is_causal=True)
    try:
        want = pytorch_sdpa(*args, is_causal=True)
    except RuntimeError as refusal:
        with tessera.torch.patched(), pytest.raises(RuntimeError, match=re.escape(str(refusal))):
            F.scaled_dot_product_attention(*args, is_causal=True)
    else:
        with tessera.torch.patched() as report:
            assert torch.equal(F.scaled_dot_product_attention(*args, is_causal=True), want)
        assert "both given" in str(report)


def test_transforms_fall_back():
    q, k, v = random_tensors(35, 3, 2, 2, 5, 5, 16)
    with tessera.torch.patched() as report:
        mapped = torch.func.vmap(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))(q, k, v)
    torch.testing.assert_close(mapped, pytorch_sdpa(q, k, v), atol=1e-5, rtol=1e-5)
    assert "torch.func" in str(report)


def test_arguments_that_pytorch_refuses_are_refused_by_pytorch():
    q, k, v = random_tensors(36, 1, 2, 2, 5, 5, 16)
    for args, options in (
        ((q, k.half(), v), {}),
        ((q, k[..., :8], v), {}),
    ):
        with pytest.raises(RuntimeError) as theirs:
            pytorch_sdpa(*args, **options)
        with pytest.raises(RuntimeError) as ours:
            tessera.torch.sdpa(*args, **options)
        assert str(ours.value) == str(theirs.value)


# Long lives.


def test_no_leak():
    q, k, v = random_tensors(37, 1, 2, 1, 2, 64, 64)
    with torch.no_grad():
        assert_no_growth(lambda: tessera.attend(q, k, v, return_lse=True), (q, k, v))
        assert_no_growth(lambda: tessera.torch.sdpa(q, k, v, enable_gqa=True), (q, k, v))


def test_threads():
    problems = [random_tensors(seed, 1, 4, 4, 3 + seed, 60, 32) for seed in range(6)]
    wanted = [tessera.torch.sdpa(*p) for p in problems]
    wrong = []

    def work(seed):
        for _ in range(100):
            if not torch.equal(tessera.torch.sdpa(*problems[seed]), wanted[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
