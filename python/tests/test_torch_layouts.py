"""The memory order of results: what people do with attention's output in PyTorch is to view it back."""

from __future__ import annotations

import numpy as np
import pytest
import tessera
from conftest import need

torch = need("torch")

import tessera.torch  # noqa: E402
from torch_helpers import no_fallback, pytorch_sdpa, random_tensors  # noqa: E402

B, S, H, D = 2, 6, 4, 16


def packed(batch=B, rows=S, heads=H):
    h = torch.randn(batch, rows, 3 * heads * D, generator=torch.Generator().manual_seed(1))
    return [t.view(batch, rows, heads, D).transpose(1, 2) for t in h.chunk(3, -1)]


def permuted(*order):
    """[b, h, s, d] whose dimensions lie in this order in memory."""
    shape = (B, H, S, D)
    back = [order.index(d) for d in range(4)]
    return torch.randn([shape[d] for d in order], generator=torch.Generator().manual_seed(2)).permute(back)


LAYOUTS = {
    "packed": packed()[0],
    "packed, one batch": packed(batch=1)[0],
    "packed, one row": packed(rows=1)[0],
    "packed, one head": packed(heads=1)[0],
    "dense": permuted(0, 1, 2, 3),
    "rows before heads": permuted(0, 2, 1, 3),
    "rows first": permuted(2, 0, 1, 3),
    "heads first": permuted(1, 0, 2, 3),
    "every other row": permuted(0, 2, 1, 3)[:, :, ::2],
    "expanded over the batch": permuted(0, 2, 1, 3)[:1].expand(B, H, S, D),
    "expanded over heads": permuted(0, 2, 1, 3)[:, :1].expand(B, H, S, D),
    "expanded over rows": permuted(0, 2, 1, 3)[:, :, :1].expand(B, H, S, D),
    "expanded everywhere": permuted(0, 1, 2, 3)[:1, :1, :1].expand(B, H, S, D),
    "transposed at the end": torch.randn(B, H, D, S).transpose(2, 3),
    "nothing in it": torch.randn(B, S, H, D).transpose(1, 2)[:, :, :0],
}


def order_of(t):
    """The strides of the dimensions that have any."""
    return [t.stride(d) for d in range(t.dim()) if t.shape[d] > 1]


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_order_of_the_output_is_pytorchs(name):
    q = LAYOUTS[name]
    _, k, v = random_tensors(3, q.shape[0], q.shape[1], q.shape[1], 1, 5, D)
    want = pytorch_sdpa(q, k, v)
    got = no_fallback(lambda: tessera.torch.sdpa(q, k, v))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    assert order_of(got) == order_of(want)
    torch._dynamo.reset()
    compiled = torch.compile(tessera.torch.sdpa, backend="aot_eager", fullgraph=True)
    assert order_of(compiled(q, k, v)) == order_of(want)
    assert order_of(tessera.torch.sdpa(*(meta_like(t) for t in (q, k, v)))) == order_of(want)


def meta_like(t):
    return torch.empty_strided(t.shape, t.stride(), device="meta")


@pytest.mark.parametrize("name", [n for n in LAYOUTS if n != "transposed at the end"])
def test_attend_and_numpy_follow_the_same_rule(name):
    q = LAYOUTS[name]
    _, k, v = random_tensors(3, q.shape[0], q.shape[1], q.shape[1], 1, 5, D)
    want = order_of(pytorch_sdpa(q, k, v))
    assert order_of(tessera.attend(q, k, v)) == want
    in_numpy = tessera.attend(q.numpy(), k.numpy(), v.numpy())
    assert [in_numpy.strides[d] // 4 for d in range(4) if in_numpy.shape[d] > 1] == want or in_numpy.size == 0
    assert np.array_equal(in_numpy, tessera.attend(q, k, v).numpy())


def test_another_value_dimension_keeps_the_order_too():
    q, k, _ = packed()
    v = torch.randn(B, H, S, 24)
    assert tessera.attend(q, k, v).transpose(1, 2).is_contiguous()


class Attention(torch.nn.Module):
    """As half of all models are written: one projection, views, no copies."""

    def __init__(self):
        super().__init__()
        self.w, self.out = torch.nn.Linear(H * D, 3 * H * D), torch.nn.Linear(H * D, H * D)

    def forward(self, h):
        batch, rows, dim = h.shape
        q, k, v = (t.view(batch, rows, H, D).transpose(1, 2) for t in self.w(h).chunk(3, -1))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).view(batch, rows, dim))


@pytest.mark.parametrize("batch", [1, 2])
def test_packed_projections_can_be_viewed_back(batch):
    torch.manual_seed(4)
    model, h = Attention(), torch.randn(batch, S, H * D)
    with torch.no_grad():
        want = model(h)
        torch.testing.assert_close(no_fallback(lambda: model(h)), want, atol=1e-5, rtol=1e-4)
    with tessera.torch.patched(prefer="tessera"):  # through the operator, with gradients
        model(h).sum().backward()
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(h), want, atol=1e-5, rtol=1e-4)
