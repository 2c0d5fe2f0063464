"""attend() that appends and turns, on tensors of PyTorch: at once, in compiled graphs, without memory."""

from __future__ import annotations

import numpy as np
import pytest
import tessera
from appending import Cache, assert_same_bits, tables
from conftest import need

torch = need("torch")

import tessera.torch  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch_helpers import NUMPY_DTYPES, to_numpy  # noqa: E402

BATCHES = {"decode": ([9, 6], [1, 1], None), "pages": ([40, 17, 5], [1, 3, 5], 16)}
COS, SIN = tables(64, 16)


def to_torch(array):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


class TorchCache:
    """A cache as tensors, and what plain code makes of it."""

    def __init__(self, batch, dtype=torch.float32, latent=False):
        lengths, rows, page = BATCHES[batch]
        cache = Cache(lengths, rows, page=page, dtype=NUMPY_DTYPES[dtype])
        self.q, self.k, self.v = (to_torch(t) for t in (cache.q, cache.k, cache.v))
        self.call = {"new_key": to_torch(cache.new_key), "new_value": to_torch(cache.new_value),
                     "rope": (torch.from_numpy(COS), torch.from_numpy(SIN)),
                     **{name: to_torch(t) for name, t in cache.where.items()}}  # fmt: skip
        q, self.want_k, self.want_v = cache.by_hand(COS, SIN)
        if latent:
            self.v, self.want_v = self.k[..., :24], self.want_k[..., :24]
            del self.call["new_value"]
        self.want = tessera.attend(q, self.want_k, self.want_v, causal="bottom-right", **cache.where)

    def check(self, out):
        assert_same_bits(to_numpy(self.k), self.want_k, "stored keys")
        assert_same_bits(to_numpy(self.v), self.want_v, "stored values")
        assert_same_bits(to_numpy(out), self.want, "output")


@pytest.mark.parametrize("attend", [tessera.attend, tessera.torch.attend])
@pytest.mark.parametrize("dtype", list(NUMPY_DTYPES))
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("latent", [False, True])
def test_stored_rows_and_results(batch, dtype, attend, latent):
    cache = TorchCache(batch, dtype, latent)
    cache.check(attend(cache.q, cache.k, cache.v, causal="bottom-right", **cache.call))


def test_autograd_notices_the_write():
    cache = TorchCache("decode")
    w = torch.randn_like(cache.k).requires_grad_()
    product = (w * cache.k).sum()  # its backward pass reads k
    versions = cache.k._version, cache.v._version
    with torch.no_grad():
        tessera.attend(cache.q, cache.k, cache.v, causal="bottom-right", **cache.call)
    assert (cache.k._version, cache.v._version) == (versions[0] + 1, versions[1] + 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.parametrize("attend", [tessera.attend, tessera.torch.attend])
@pytest.mark.parametrize("which", ["q", "k", "new_key", "new_value"])
def test_no_gradients(attend, which):
    cache = TorchCache("decode")
    (cache.call[which] if which in cache.call else getattr(cache, which)).requires_grad_()
    with pytest.raises(ValueError, match="new_key= has no gradient; leave it off, or call under torch.no_grad"):
        attend(cache.q, cache.k, cache.v, causal="bottom-right", **cache.call)
    with torch.no_grad():
        attend(cache.q, cache.k, cache.v, causal="bottom-right", **cache.call)


# Compiled.


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_function_writes_the_cache(batch, backend, dynamic):
    """What is read before the call, and after it, inside the same graph, has to be what an eager program sees."""
    cache = TorchCache(batch)

    def step(q, k, v, call):
        before = k.sum(dtype=torch.float64), v.clone()
        out = tessera.torch.attend(q, k, v, causal="bottom-right", **call)
        return out, before, k.clone()

    k, v = cache.k.nan_to_num(0.0), cache.v.nan_to_num(0.0)
    cache.want_k, cache.want_v = (np.nan_to_num(t, nan=0.0) for t in (cache.want_k, cache.want_v))
    cache.k, cache.v = k, v
    want_before = k.sum(dtype=torch.float64), v.clone()
    with torch.no_grad():
        out, before, after = compiled(step, backend=backend, dynamic=dynamic)(cache.q, k, v, cache.call)
    cache.check(out)
    assert torch.equal(before[0], want_before[0]) and torch.equal(before[1], want_before[1])
    assert_same_bits(to_numpy(after), cache.want_k)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_call_whose_result_nobody_wants_still_writes(backend):
    cache = TorchCache("decode")

    def step(q, k, v, call):
        tessera.torch.attend(q, k, v, causal="bottom-right", **call)
        return q + 1

    with torch.no_grad():
        compiled(step, backend=backend)(cache.q, cache.k, cache.v, cache.call)
    assert_same_bits(to_numpy(cache.k), cache.want_k)
    assert_same_bits(to_numpy(cache.v), cache.want_v)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_latent_attention(backend):
    cache = TorchCache("pages", latent=True)

    def step(q, k, call):
        return tessera.torch.attend(q, k, k[..., :24], causal="bottom-right", **call)

    with torch.no_grad():
        cache.check(compiled(step, backend=backend)(cache.q, cache.k, cache.call))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_caches_that_are_views_and_several_steps(backend):
    """Layers' caches in one tensor, two layers and two steps in one graph."""
    caches = [TorchCache("decode"), TorchCache("decode")]
    pool = torch.stack([torch.stack([c.k, c.v]) for c in caches])
    q, call = caches[0].q, dict(caches[0].call)

    def steps(pool, q, call):
        for lengths in (call["key_lengths"], call["key_lengths"] + 1):
            for layer in range(2):
                q = tessera.torch.attend(q, pool[layer, 0], pool[layer, 1], causal="bottom-right",
                                         **{**call, "key_lengths": lengths})  # fmt: skip
        return q

    with torch.no_grad():
        eager = pool.clone()
        want = steps(eager, q, call)
        got = compiled(steps, backend=backend)(pool, q, call)
    assert_same_bits(got.numpy(), want.numpy())
    assert_same_bits(pool.numpy(), eager.numpy())


@pytest.mark.parametrize("rope", [(torch.from_numpy(COS), torch.from_numpy(SIN)), "Rope"])
def test_compiled_rope_alone_writes_nothing(rope):
    cache = TorchCache("decode")
    interleaved = rope == "Rope"
    if interleaved:
        rope = tessera.Rope(torch.from_numpy(COS[:, :4].copy()), torch.from_numpy(SIN[:, :4].copy()), interleaved=True, first=3)
    k, v = torch.from_numpy(cache.want_k), torch.from_numpy(cache.want_v)
    places = torch.tensor([[3], [5]])
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    def step(q, k, v):
        return tessera.torch.attend(q, k, v, rope=rope, positions=places, key_lengths=cache.call["key_lengths"])

    with torch.no_grad():
        want = step(cache.q, k, v)
        assert torch.equal(compiled(step, backend=backend)(cache.q, k, v), want)
        assert torch.equal(compiled(step, backend="aot_eager")(cache.q, k, v), want)
    assert seen[0] == "tessera.turned.default" and not any("append" in node for node in seen)
    torch._dynamo.reset()


def test_gradients_are_refused_in_graphs_too():
    cache = TorchCache("decode")
    cache.q.requires_grad_()
    step = compiled(lambda q: tessera.torch.attend(q, cache.k, cache.v, causal="bottom-right", **cache.call), backend="aot_eager")
    with pytest.raises(Exception, match="new_key= has no gradient"):
        step(cache.q)
    torch._dynamo.reset()


@pytest.mark.parametrize("batch", BATCHES)
def test_cuda(batch):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    cache = TorchCache(batch, torch.bfloat16)
    move = lambda x: tuple(t.cuda() for t in x) if isinstance(x, tuple) else x.cuda()  # noqa: E731
    k, v = cache.k.cuda(), cache.v.cuda()
    try:
        out = tessera.attend(cache.q.cuda(), k, v, causal="bottom-right", **{n: move(t) for n, t in cache.call.items()})
    except tessera.DeviceUnavailable as why:
        pytest.skip(str(why))
    assert_same_bits(to_numpy(k.cpu()), cache.want_k)  # the bits of the CPU
    assert_same_bits(to_numpy(v.cpu()), cache.want_v)
    np.testing.assert_allclose(to_numpy(out.cpu()).astype(np.float32), cache.want.astype(np.float32), atol=0.02, rtol=0.02)


# Operators and tensors without memory.


def operands(cache):
    names = ("key_lengths", "query_offsets", "key_offsets", "page_table")
    return (
        cache.q, cache.k, cache.v, cache.call["new_key"], cache.call.get("new_value"), *cache.call["rope"], None, None,
        None, None, *(cache.call.get(n) for n in names), None, None, False, 0, 2, -1, 0, 0.0, 0.0, "", 0, False,
    )  # fmt: skip


@pytest.mark.parametrize("appends", [True, False])
@pytest.mark.parametrize("option", ["window", "mask", "prior", "sinks", "alibi", "numbers"])
def test_the_operators_take_what_a_call_takes(option, appends):
    cache = TorchCache("pages")
    call = dict(cache.call, causal="bottom-right", invariant=True)
    if appends:
        k, v = cache.k.clone(), cache.v.clone()
    else:
        k, v = (torch.from_numpy(t) for t in (cache.want_k, cache.want_v))
        call |= {"new_key": None, "new_value": None}
    generator = torch.Generator().manual_seed(1)
    part = torch.randn(cache.q.shape, generator=generator)
    call |= {
        "window": {"window": 3},
        "mask": {"mask": torch.rand(9, 2, generator=generator) > 0.5, "mask_align": "bottom-right"},
        "prior": {"prior": (part, part[..., 0].contiguous())},
        "sinks": {"sinks": torch.tensor([1.0, 0, -1, 2])},
        "alibi": {"alibi": torch.tensor([0.5, 0.25, 0.1, 0.0])},
        "numbers": {"scale": 0.3, "softcap": 2.0, "kernel": "cpu_scalar",
                    "rope": tessera.Rope(*(t[:, :4].contiguous() for t in call["rope"]), True, 7)},
    }[option]  # fmt: skip
    every = dict.fromkeys(("mask", "window", "scale", "softcap", "alibi", "sinks", "key_lengths", "kernel", "query_offsets",
                           "key_offsets", "page_table", "prior", "mask_align", "positions"))  # fmt: skip
    got_k, got_v = k.clone(), v.clone()
    got, got_lse = tessera.torch._append_ops.attend(cache.q, got_k, got_v, **every | call)
    want, lse = tessera.attend(cache.q, k, v, return_lse=True, **call)
    plain, _ = tessera.attend(cache.q, k.clone(), v.clone(), return_lse=True, **cache.call, causal="bottom-right")
    for one, other in ((got, want), (got_lse, lse), (got_k, k), (got_v, v)):
        assert_same_bits(to_numpy(one), to_numpy(other))
    assert not torch.equal(want, plain), "the option changes nothing here"


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("operator", ["append", "turned"])
def test_opcheck(batch, operator):
    cache = TorchCache(batch)
    arguments = list(operands(cache))
    arguments[1], arguments[2] = (t.nan_to_num(0.0) for t in arguments[1:3])  # NaN is unequal to itself
    if operator == "turned":
        arguments[3] = arguments[4] = None
    torch.library.opcheck(getattr(torch.ops.tessera, operator).default, tuple(arguments))


def test_the_schemas_say_what_is_written():
    for name, written in (("append", {"k", "v", "key_tail"}), ("turned", set())):
        schema = getattr(torch.ops.tessera, name).default._schema
        assert {a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write} == written


@pytest.mark.parametrize("attend", [tessera.attend, tessera.torch.attend])
def test_tensors_without_memory_give_a_shape(attend):
    cache = TorchCache("pages")
    meta = {n: tuple(t.to("meta") for t in x) if isinstance(x, tuple) else x.to("meta") for n, x in cache.call.items()}
    out, lse = attend(cache.q.to("meta"), cache.k.to("meta"), cache.v.to("meta"), causal="bottom-right", return_lse=True, **meta)
    assert out.is_meta and out.shape == cache.q.shape and lse.shape == cache.q.shape[:3]
    with FakeTensorMode() as mode:
        fake = {n: tuple(mode.from_tensor(t) for t in x) if isinstance(x, tuple) else mode.from_tensor(x)
                for n, x in cache.call.items()}  # fmt: skip
        out = attend(*(mode.from_tensor(t) for t in (cache.q, cache.k, cache.v)), causal="bottom-right", **fake)
    assert out.shape == cache.q.shape


@pytest.mark.parametrize(
    "option, sentence",
    [
        ({"output_dtype": torch.float32}, "output_dtype= is for calls that run at once: the operator tessera::append"),
        ({"workspace": True}, "workspace= is for calls that run at once"),
        ({"out": torch.empty(0, device="meta")}, "out= is for calls that run at once"),
        ({"rope": (torch.empty(3, 4),)}, "rope is no pair"),
        ({"rope": tessera.Rope(None, None, first=True)}, "rope.first is True"),
    ],
)
def test_what_graphs_do_not_take(option, sentence):
    cache = TorchCache("decode")
    with pytest.raises(ValueError, match=sentence):
        tessera.torch.attend(cache.q.to("meta"), cache.k.to("meta"), cache.v.to("meta"), causal="bottom-right",
                             **{**cache.call, **option})  # fmt: skip
