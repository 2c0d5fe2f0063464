"""workspace=: scratch memory of the caller's, or from q's own framework, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import tessera
from conftest import need
from test_process import assert_no_growth

SHAPES = {"prefill": (2, 8, 2, 70, 90, 32), "decode": (1, 4, 2, 1, 9000, 40)}


def inputs(shape="prefill"):
    return reference.random_inputs(1, *SHAPES[shape])


def room(q, k, v, *, more=0, **options):
    """An array that is large enough wherever it begins, full of NaN to whoever reads it as floats."""
    needed = tessera.plan(q, k, v, workspace=True, **options)["workspace_bytes"]
    assert needed > 0
    return np.full(needed + 255 + more, 0xFF, np.uint8)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits(shape, threads):
    q, k, v = inputs(shape)
    tessera.set_threads(threads)
    plain, lse = tessera.attend(q, k, v, return_lse=True)
    memory = room(q, k, v)
    for workspace in (memory, True, memory, False, None):
        got, got_lse = tessera.attend(q, k, v, workspace=workspace, return_lse=True)
        np.testing.assert_array_equal(got, plain)
        np.testing.assert_array_equal(got_lse, lse)
    assert (memory != 0xFF).any()  # it was used


@pytest.mark.parametrize("skip", [0, 1, 100, 255])
def test_any_start(skip):
    q, k, v = inputs()
    memory = room(q, k, v, more=skip)
    np.testing.assert_array_equal(tessera.attend(q, k, v, workspace=memory[skip:]), tessera.attend(q, k, v))
    assert (memory[:skip] == 0xFF).all()


def test_with_out_and_buffers():
    q, k, v = inputs()
    out = np.empty_like(q)
    assert tessera.attend(q, k, v, out=out, workspace=room(q, k, v)) is out
    np.testing.assert_array_equal(out, tessera.attend(q, k, v))
    again = np.zeros_like(q)
    memory = bytearray(room(q, k, v))
    tessera.attend(memoryview(q), memoryview(k), memoryview(v), out=again, workspace=memory)
    np.testing.assert_array_equal(out, again)
    with pytest.raises(TypeError, match="q is a memoryview.*pass an array as workspace="):
        tessera.attend(memoryview(q), memoryview(k), memoryview(v), out=again, workspace=True)


def test_plan_and_explain():
    q, k, v = inputs("decode")
    plan = tessera.plan(q, k, v, workspace=True)
    assert plan == tessera.plan(q, k, v, workspace=room(q, k, v))
    assert f"{plan['workspace_bytes']} bytes of workspace" in tessera.explain(q, k, v, workspace=True)
    with pytest.raises(tessera.InvalidArgument, match=f"{plan['workspace_bytes']} are needed"):
        tessera.plan(q, k, v, workspace=np.empty(300, np.uint8))


def test_refusals():
    q, k, v = inputs()
    needed = tessera.plan(q, k, v)["workspace_bytes"]
    memory = room(q, k, v)
    start = -memory.ctypes.data % 256
    frozen = memory.copy()
    frozen.flags.writeable = False
    cases = [
        (memory[start : start + needed - 1], ValueError, f"device.workspace_bytes is {needed - 1}; {needed} are needed"),
        (np.zeros(needed, np.int16), TypeError, "workspace has dtype int16"),
        (memory.view(np.int8), TypeError, "workspace is no uint8 array"),
        (np.zeros(needed, np.float32), TypeError, "workspace is no uint8 array"),
        (memory[::2], ValueError, "workspace is not contiguous in one dimension"),
        (memory[None], ValueError, "workspace is not contiguous in one dimension"),
        (frozen, ValueError, "workspace is read-only"),
        (needed, TypeError, "workspace is a int"),
        ("large", TypeError, "workspace is a str"),
    ]
    for workspace, exception, sentence in cases:
        out = np.full_like(q, 7)
        with pytest.raises(exception, match=sentence):
            tessera.attend(q, k, v, workspace=workspace, out=out)
        assert (out == 7).all()


def test_it_must_not_be_a_tensor_of_the_call():
    q, k, v = inputs()
    memory = room(q, k, v, more=q.nbytes)
    inside = memory[-memory.ctypes.data % 256 :][: q.nbytes].view(np.float32).reshape(q.shape)
    with pytest.raises(ValueError, match="device.workspace overlaps output"):
        tessera.attend(q, k, v, out=inside, workspace=memory)
    inside[:] = q
    with pytest.raises(ValueError, match="device.workspace overlaps query"):
        tessera.attend(inside, k, v, workspace=memory)
    np.testing.assert_array_equal(inside, q)


def test_none_is_needed_for_nothing():
    q, k, v = inputs()
    np.testing.assert_array_equal(
        tessera.attend(q, k, v, workspace=np.empty(0, np.uint8)), tessera.attend(q, k, v)
    )
    assert tessera.attend(q[:0], k[:0], v[:0], workspace=True).shape == q[:0].shape


def test_bad_calls_are_refused_for_what_is_bad():
    q, k, v = inputs()
    with pytest.raises(ValueError, match="query.rank is 3"):
        tessera.attend(q[0], k, v, workspace=True)
    with pytest.raises(ValueError, match="no_such_kernel"):
        tessera.attend(q, k, v, workspace=True, kernel="no_such_kernel")


def test_uint8_is_scratch_and_no_mask():
    q, k, v = inputs()
    with pytest.raises(TypeError, match="mask has dtype uint8"):
        tessera.attend(q, k, v, mask=np.ones((70, 90), np.uint8))


def test_no_leak():
    q, k, v = reference.random_inputs(1, 1, 2, 1, 2, 64, 64)
    memory = room(q, k, v)
    assert_no_growth(lambda: tessera.attend(q, k, v, workspace=True), (q, k, v))
    assert_no_growth(lambda: tessera.attend(q, k, v, workspace=memory), (q, k, v, memory))


# PyTorch: its allocator, and where its graphs and gradients have no place for a workspace.


def tensors(requires_grad=False):
    torch = need("torch")
    return tuple(torch.from_numpy(t).requires_grad_(requires_grad) for t in inputs())


def test_torch_allocates_it():
    torch = need("torch")
    q, k, v = tensors()
    plain = tessera.attend(q, k, v)
    needed = tessera.plan(q, k, v)["workspace_bytes"]
    asked = []
    empty = torch.empty

    def watched(*shape, **options):
        asked.append((*shape, options["dtype"], options["device"]))
        return empty(*shape, **options)

    torch.empty = watched
    try:
        assert torch.equal(tessera.attend(q, k, v, workspace=True), plain)
    finally:
        torch.empty = empty
    assert ((needed + 255,), torch.uint8, q.device) in asked
    memory = torch.full((needed + 255,), 255, dtype=torch.uint8)
    assert torch.equal(tessera.attend(q, k, v, workspace=memory), plain)
    assert (memory != 255).any()
    # Of another framework, on the same device.
    assert torch.equal(tessera.attend(q, k, v, workspace=np.empty(needed + 255, np.uint8)), plain)


def test_torch_attend_takes_it_where_the_call_runs_at_once():
    torch = need("torch")
    import tessera.torch
    from torch._subclasses import FakeTensorMode

    q, k, v = tensors()
    plain = tessera.attend(q, k, v)
    for workspace in (True, False, None):
        assert torch.equal(tessera.torch.attend(q, k, v, workspace=workspace), plain)
    with pytest.raises(ValueError, match="device.workspace_bytes is .* are needed"):
        tessera.torch.attend(q, k, v, workspace=torch.empty(600, dtype=torch.uint8))
    wanting = tensors(requires_grad=True)
    for attend in (tessera.attend, tessera.torch.attend):
        with pytest.raises(ValueError, match="workspace= has no gradient; leave it off"):
            attend(*wanting, workspace=True)
        with torch.no_grad():
            assert torch.equal(attend(*wanting, workspace=True), plain)
        with pytest.raises(ValueError, match="workspace= is for calls that run at once"):
            attend(*(t.to("meta") for t in (q, k, v)), workspace=True)
        with FakeTensorMode(), pytest.raises(ValueError, match="workspace= is for calls that run at once"):
            attend(*(torch.empty(t.shape) for t in (q, k, v)), workspace=True)


def test_a_compiled_graph_has_no_place_for_it():
    torch = need("torch")
    import tessera.torch

    q, k, v = tensors()
    call = torch.compile(
        lambda q, k, v: tessera.torch.attend(q, k, v, workspace=True), backend="aot_eager", fullgraph=True
    )
    with pytest.raises(Exception, match="workspace= is for calls that run at once"):
        call(q, k, v)


def test_jax_manages_its_own():
    jax = need("jax")
    q, k, v = (jax.device_put(t, jax.devices("cpu")[0]) for t in inputs())
    for call in (tessera.attend, tessera.jax.attend, tessera.plan, tessera.explain):
        for workspace in (True, np.empty(1 << 20, np.uint8)):
            with pytest.raises(ValueError, match="workspace= is not for arrays of JAX"):
                call(q, k, v, workspace=workspace)
    np.testing.assert_array_equal(
        np.asarray(tessera.attend(q, k, v, workspace=False)), np.asarray(tessera.attend(q, k, v))
    )
