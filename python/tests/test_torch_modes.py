"""What PyTorch does around a call: forward-mode derivatives, versions of tensors, tensors without memory, compilers."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tessera
from conftest import need

torch = need("torch")

import tessera.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch_helpers import pytorch_sdpa, random_tensors  # noqa: E402

# Forward mode.


def test_attend_refuses_tangents():
    q, k, v = random_tensors(1, 1, 2, 2, 5, 7, 16)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, torch.ones_like(q))
        for attend in (tessera.attend, tessera.torch.attend):
            with pytest.raises(NotImplementedError, match="forward-mode tangent"):
                attend(dual, k, v)
            with pytest.raises(NotImplementedError, match="forward-mode tangent"):
                attend(k, k, forward_ad.make_dual(v, v))
        with pytest.raises(NotImplementedError, match="forward-mode tangent"):
            tessera.attend(q, k, v, mask=forward_ad.make_dual(torch.zeros(5, 7), torch.ones(5, 7)))
        assert torch.equal(tessera.attend(q, k, v), tessera.torch.attend(q, k, v))  # no tangent, no objection
    with pytest.raises(NotImplementedError, match="forward-mode tangent"):
        torch.func.jvp(lambda q: tessera.torch.attend(q, k, v), (q,), (torch.ones_like(q),))


@pytest.mark.parametrize("prefer", ["faster", "tessera"])
def test_sdpa_leaves_tangents_to_pytorch(prefer):
    q, k, v = random_tensors(2, 1, 2, 2, 5, 7, 16)
    tangent = torch.randn_like(q)
    with forward_ad.dual_level(), tessera.torch.patched(prefer) as report:
        out = F.scaled_dot_product_attention(forward_ad.make_dual(q, tangent), k, v, is_causal=True)
        got = forward_ad.unpack_dual(out).tangent
    step = 1e-3
    want = (pytorch_sdpa((q + step * tangent).double(), k.double(), v.double(), is_causal=True)
            - pytorch_sdpa((q - step * tangent).double(), k.double(), v.double(), is_causal=True)) / (2 * step)  # fmt: skip
    torch.testing.assert_close(got, want.float(), atol=1e-4, rtol=1e-3)
    assert report.calls == 0 and "forward-mode tangent" in str(report)


def test_jvp_of_sdpa():
    q, k, v = random_tensors(3, 1, 2, 2, 5, 7, 16)
    with tessera.torch.patched() as report:
        _, got = torch.func.jvp(lambda q: F.scaled_dot_product_attention(q, k, v), (q,), (q,))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        _, want = torch.func.jvp(lambda q: pytorch_sdpa(q, k, v), (q,), (q,))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    assert report.calls == 0 and report.fallbacks.total() == 1


# Tensors that are written to.


@pytest.mark.parametrize("attend", [tessera.attend, tessera.torch.attend])
def test_out_is_a_write_that_autograd_notices(attend):
    q, k, v = random_tensors(4, 1, 2, 2, 5, 5, 16)
    saved = torch.ones_like(q)
    before = saved._version
    w = torch.randn_like(q).requires_grad_()
    product = (w * saved).sum()  # its backward pass reads `saved`
    attend(q, k, v, out=saved)
    assert saved._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_out_may_be_an_inference_tensor_but_not_a_leaf_that_wants_a_gradient():
    q, k, v = random_tensors(5, 1, 2, 2, 5, 5, 16)
    with torch.inference_mode():
        out = torch.empty_like(q)
        assert tessera.attend(q, k, v, out=out) is out
    with pytest.raises(ValueError, match="out= has no gradient"):
        tessera.attend(q, k, v, out=torch.empty_like(q).requires_grad_())


# Tensors without memory.


@pytest.mark.parametrize("attend", [tessera.attend, tessera.torch.attend])
def test_meta_tensors_give_a_shape(attend):
    q, k, v = (t.to("meta") for t in random_tensors(6, 2, 4, 2, 5, 7, 16, torch.bfloat16, value_dim=24))
    out, lse = attend(q, k, v, causal="bottom-right", return_lse=True)
    assert out.is_meta and out.shape == (2, 4, 5, 24) and out.dtype == torch.bfloat16
    assert lse.is_meta and lse.shape == (2, 4, 5) and lse.dtype == torch.float32
    assert attend(q.transpose(1, 2).contiguous().transpose(1, 2), k, v).transpose(1, 2).is_contiguous()


def test_meta_tensors_through_the_drop_in():
    q, k, v = (t.to("meta") for t in random_tensors(6, 2, 4, 4, 5, 7, 16))
    assert tessera.torch.sdpa(q, k, v).shape == q.shape and tessera.torch.sdpa(q, k, v).is_meta


@pytest.mark.parametrize("attend", [tessera.attend, tessera.torch.attend, tessera.torch.sdpa])
def test_fake_tensors_give_a_shape(attend):
    with FakeTensorMode():
        q, k, v = torch.empty(2, 4, 5, 16), torch.empty(2, 4, 7, 16), torch.empty(2, 4, 7, 24)
        out = attend(q, k, v)
    assert type(out) is type(q) and out.shape == (2, 4, 5, 24) and out.device.type == "cpu"


# No heads: PyTorch's own kernel divides by their number and ends the process.


@pytest.mark.parametrize("shapes", [((2, 0, 5, 8), (2, 0, 5, 8)), ((2, 4, 5, 8), (2, 0, 5, 8))])
def test_no_heads_is_a_sentence(shapes):
    program = (
        "import torch, tessera.torch\n"
        f"q, k = torch.randn{shapes[0]}, torch.randn{shapes[1]}\n"
        "for attend in (lambda: tessera.torch.sdpa(q, k, k, enable_gqa=True), lambda: tessera.attend(q, k, k)):\n"
        "    try: attend()\n"
        "    except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"ended with {done.returncode}"
    first, second = done.stdout.splitlines()
    assert "heads; 1 or more is accepted" in first and "0" in second


def test_an_empty_leading_dimension_is_no_mistake():
    empty = torch.randn(0, 5, 8)
    assert tessera.torch.sdpa(empty, empty, empty).shape == (0, 5, 8)


# Counting what compiled code does.


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_compiled_calls_are_counted_when_they_run(backend):
    q, k, v = random_tensors(7, 1, 2, 2, 5, 5, 16)
    model = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q + 1, k, v), backend=backend, fullgraph=True)
    with torch.no_grad(), tessera.torch.patched() as report:
        for _ in range(3):
            model(q, k, v)
        assert report.calls == 3 and not report.fallbacks and not report.compiled_fallbacks, str(report)
        torch._dynamo.reset()
        model(q, k, v)
    assert report.calls == 4
    tessera.attend(q, k, v)
    assert report.calls == 4  # a closed report stays as it is
    torch._dynamo.reset()


def test_a_compiled_graph_sees_one_node():
    """Dynamo guards on everything it looks into, at every call; it must not look into sdpa()."""
    seen = []

    def backend(graph, inputs):
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    q, k, v = random_tensors(8, 1, 2, 2, 5, 5, 16)
    with torch.no_grad(), tessera.torch.patched():
        torch.compile(lambda *x: F.scaled_dot_product_attention(*x), backend=backend, fullgraph=True)(q, k, v)
    assert seen == [tessera.torch._sdpa]
    torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_fallbacks_are_reported_without_a_count(dynamic):
    wide = torch.randn(1, 2, 5, 1040)
    model = torch.compile(
        lambda q: F.scaled_dot_product_attention(q, q, q), backend="aot_eager", fullgraph=True, dynamic=dynamic
    )
    with tessera.torch.patched() as report:
        for _ in range(3):
            torch.testing.assert_close(model(wide), pytorch_sdpa(wide, wide, wide))
    assert report.calls == 0 and len(report.compiled_fallbacks) == 1 and not report.fallbacks
    assert "compiled for PyTorch: query has head dimension" in str(report)
    torch._dynamo.reset()
