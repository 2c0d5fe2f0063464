"""Calls that PyTorch computes faster go to PyTorch, for a reason that is in the report; a switch insists."""

from __future__ import annotations

import pathlib
import re

import pytest
import tessera
from conftest import need

torch = need("torch")

import tessera.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from tessera import _torch_prefer  # noqa: E402
from torch_helpers import pytorch_sdpa, random_tensors  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def meta(shape, device, dtype=torch.bfloat16, gradient=False):
    """A tensor with everything the table asks about and no memory, on a device that need not be here."""

    class Stand(torch.Tensor):
        device = torch.device("cuda")

    t = torch.empty(shape, device="meta", dtype=dtype).requires_grad_(gradient)
    return t.as_subclass(Stand) if device == "cuda" else torch.empty(shape, dtype=dtype).requires_grad_(gradient)


def row_for(device, query, key, dtype=torch.bfloat16, mask=None, gradient=False):
    q, k = meta(query, device, dtype, gradient), meta(key, device, dtype)
    why = _torch_prefer.faster_elsewhere(q, k, k, mask)
    names = [row.name for row in _torch_prefer.ROWS if why is not None and why.startswith(row.reason)]
    assert (why is None) == (names == [])
    return names[0] if names else None


LONG = (2, 16, 1024, 64)


@pytest.mark.parametrize("row", _torch_prefer.ROWS, ids=lambda row: row.name)
def test_every_row_meets_its_own_example(row):
    x = row.example
    mask = torch.ones(1) if x.get("mask") == "additive" else None
    found = row_for(row.devices[-1], x["query"], x["key"], getattr(torch, x["dtype"]), mask, x.get("gradient", False))
    assert found == row.name
    assert row.reason and re.search(r"\d", row.measured), "a row needs its reason and its measurement"


def test_what_stays():
    assert row_for("cpu", LONG, LONG, torch.float32) is None
    assert row_for("cpu", LONG, LONG, torch.bfloat16, mask=torch.ones(1)) is None
    assert row_for("cpu", (1, 32, 1, 128), (1, 8, 4096, 128)) is None
    assert row_for("cuda", LONG, LONG) is None
    assert row_for("cuda", (8, 32, 8, 128), (8, 8, 16384, 128)) is None  # measured ahead
    assert row_for("cuda", LONG, LONG, mask=torch.ones(1, dtype=torch.bool)) is None
    assert row_for("cuda", LONG, LONG, mask=torch.ones(1)) is not None
    assert row_for("cuda", (1, 32, 63, 128), (1, 8, 8192, 128)) is None
    assert row_for("cuda", (1, 8, 1, 64), (1, 8, 256, 64)) is None
    with torch.no_grad():
        assert row_for("cpu", LONG, LONG, gradient=True) is None


@pytest.mark.parametrize("leaf", range(4))
def test_training_goes_to_pytorch_unless_told(leaf):
    tensors = [*random_tensors(1, 1, 2, 2, 5, 5, 16), torch.zeros(5, 5)]
    tensors[leaf].requires_grad_()
    with tessera.torch.patched() as report:
        out = F.scaled_dot_product_attention(*tensors)
    assert report.calls == 0 and "a gradient is wanted" in str(report) and "prefer='tessera'" in str(report)
    assert torch.equal(out, pytorch_sdpa(*tensors)) and "a gradient is wanted" in tessera.torch.why_not(*tensors)
    with tessera.torch.patched(prefer="tessera") as report:
        out = F.scaled_dot_product_attention(*tensors)
    assert report.calls == 1 and not report.fallbacks and out.requires_grad
    with torch.no_grad(), tessera.torch.patched() as report:
        F.scaled_dot_product_attention(*tensors)
    assert report.calls == 1 and not report.fallbacks


def test_the_switch_of_sdpa():
    q, k, v = (t.requires_grad_() for t in random_tensors(2, 1, 2, 2, 5, 5, 16))
    with tessera.torch.patched() as report:
        tessera.torch.sdpa(q, k, v, prefer="tessera").sum().backward()
    assert report.calls == 1 and tessera.torch.why_not(q, k, v, prefer="tessera") is None
    for call in (lambda: tessera.torch.sdpa(q, k, v, prefer="slower"), lambda: tessera.torch.patched("slower").__enter__()):
        with pytest.raises(ValueError, match="prefer is 'slower'; 'faster' .* or 'tessera' is accepted"):
            call()


def test_attend_is_not_redirected():
    q, k, v = (t.requires_grad_() for t in random_tensors(3, 1, 2, 2, 5, 5, 16))
    with tessera.torch.patched() as report:
        tessera.attend(q, k, v).sum().backward()
    assert report.calls == 1 and not report.fallbacks


def test_compiled_training_goes_to_pytorch_too():
    q, k, v = (t.requires_grad_() for t in random_tensors(4, 1, 2, 2, 5, 5, 16))
    with tessera.torch.patched() as report:
        model = torch.compile(lambda *x: F.scaled_dot_product_attention(*x), backend="aot_eager", fullgraph=True)
        model(q, k, v).sum().backward()
        assert report.calls == 0 and "compiled for PyTorch: a gradient is wanted" in str(report)
        with torch.no_grad():
            model(q, k, v)
        assert report.calls == 1
    torch._dynamo.reset()


def test_patches_nest_with_their_preferences():
    q, k, v = (t.requires_grad_() for t in random_tensors(5, 1, 2, 2, 5, 5, 16))
    with tessera.torch.patched(prefer="tessera"):
        with tessera.torch.patched() as inner:
            F.scaled_dot_product_attention(q, k, v)
        with tessera.torch.patched(prefer="tessera"):
            pass
        with tessera.torch.patched() as outer:
            pass
        F.scaled_dot_product_attention(q, k, v)
    assert inner.calls == 0 and outer.calls == 0 and F.scaled_dot_product_attention is pytorch_sdpa


def test_the_page_names_every_row():
    if not PAGE.exists():
        pytest.skip("the documentation is not here")
    page = PAGE.read_text()
    for row in _torch_prefer.ROWS:
        assert row.name in page, f"docs/python.md does not name {row.name!r}"
