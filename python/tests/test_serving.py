"""Ragged and paged batches, prior results and masks over the last keys: each entry against a dense call of its own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tessera
from conftest import need

HEADS, KV_HEADS, DIM = 4, 2, 32
ENTRIES = [(1, 40), (3, 17), (0, 9), (2, 0), (5, 5), (7, 3)]  # rows and keys


def sequences(dtype=np.float32):
    rng = np.random.default_rng(3)
    return [
        tuple(rng.standard_normal((1, h, n, DIM)).astype(dtype) for h, n in ((HEADS, rows), (KV_HEADS, keys), (KV_HEADS, keys)))
        for rows, keys in ENTRIES
    ]  # fmt: skip


def offsets(counts, dtype=np.int32):
    return np.concatenate([[0], np.cumsum(counts)]).astype(dtype)


def paged(batch, page):
    """K and V pools with the pages in reverse order, NaN wherever no key is, and the table with -1 beyond."""
    columns = max(-(-k.shape[2] // page) for _, k, _ in batch)
    pages = sum(-(-k.shape[2] // page) for _, k, _ in batch) + 1
    pools = [np.full((pages, KV_HEADS, page, DIM), np.nan, batch[0][1].dtype) for _ in range(2)]
    table = np.full((len(batch), columns), -1, np.int32)
    free = pages - 1
    for b, (_, k, v) in enumerate(batch):
        for n in range(-(-k.shape[2] // page)):
            table[b, n] = free
            for pool, rows in zip(pools, (k, v)):
                part = rows[0, :, n * page : (n + 1) * page]
                pool[free, :, : part.shape[1]] = part
            free -= 1
    return *pools, table


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("options", [{}, {"causal": "bottom-right"}, {"causal": "bottom-right", "window": 3}])
@pytest.mark.parametrize("page", [None, 1, 16])
def test_entries_have_the_bits_they_have_alone(dtype, options, page):
    batch = sequences(dtype)
    q = np.concatenate([q for q, _, _ in batch], axis=2)
    rows = offsets([q.shape[2] for q, _, _ in batch])
    lengths = [k.shape[2] for _, k, _ in batch]
    if page is None:
        k, v = (np.concatenate([e[i] for e in batch], axis=2) for i in (1, 2))
        where = {"key_offsets": offsets(lengths, np.int64)}
    else:
        k, v, table = paged(batch, page)
        where = {"page_table": table, "key_lengths": np.int32(lengths)}
    out, lse = tessera.attend(q, k, v, query_offsets=rows, return_lse=True, invariant=True, **where, **options)
    assert out.shape == q.shape and lse.shape == q.shape[:3]
    for b, entry in enumerate(batch):
        alone, alone_lse = tessera.attend(*entry, return_lse=True, **options)
        np.testing.assert_array_equal(out[:, :, rows[b] : rows[b + 1]], alone)
        np.testing.assert_array_equal(lse[:, :, rows[b] : rows[b + 1]], alone_lse)


def test_prior_results_make_one_of_two_halves():
    (q, k, v) = sequences()[1]
    rows = np.int32([0, q.shape[2]])
    whole = tessera.attend(q, k, v)
    out, lse = tessera.attend(q, k[:, :, :9], v[:, :, :9], query_offsets=rows, return_lse=True)
    got = tessera.attend(q, k[:, :, 9:], v[:, :, 9:], query_offsets=rows, prior=(out, lse))
    np.testing.assert_allclose(got, whole, rtol=1e-5, atol=1e-6)
    # Without keys the parts are merged; two that saw nothing give nothing.
    none = k[:, :, :0]
    parts = np.concatenate([out, out]), np.concatenate([lse, lse])
    np.testing.assert_allclose(tessera.attend(q, none, none, query_offsets=rows, prior=parts), out, rtol=1e-6)
    parts = np.full_like(parts[0], np.nan), np.full_like(parts[1], -np.inf)
    assert not tessera.attend(q, none, none, query_offsets=rows, prior=parts).any()


def test_a_mask_over_the_last_keys():
    (q, k, v) = sequences()[1]
    last = np.tril(np.ones((3, 3), bool))
    whole = np.concatenate([np.ones((3, 14), bool), last], axis=1)
    np.testing.assert_array_equal(tessera.attend(q, k, v, mask=last, mask_align="bottom-right"), tessera.attend(q, k, v, mask=whole))  # fmt: skip


def test_float32_output_beside_halves():
    q, k, v = sequences(np.float16)[0]
    out = np.empty(q.shape, np.float32)
    assert tessera.attend(q, k, v, out=out) is out
    np.testing.assert_array_equal(out.astype(np.float16), tessera.attend(q, k, v))
    assert (out != out.astype(np.float16)).any()


REFUSALS = {
    "table without lengths": ({"page_table": np.zeros((1, 2), np.int32)}, "page_table needs key_lengths"),
    "falling offsets": ({"query_offsets": np.int32([3, 1])}, r"query_offsets\[1\] is 1, but query_offsets\[0\] is 3"),
    "prior without offsets": ({"prior": (np.zeros((1, 4, 3, 32), np.float32), np.zeros((1, 4, 3), np.float32))},
                              "prior_output needs query_offsets"),
    "half a prior": ({"query_offsets": np.int32([0, 3]), "prior": (np.zeros(3, np.float32),)}, "prior is no pair"),
    "mask_align": ({"mask": np.ones(3, bool), "mask_align": "middle"}, "mask_align is 'middle'"),
    "mask_align top-left": ({"mask": np.ones(17, bool), "mask_align": "top-left"}, "mask.tensor_align is 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    options, sentence = REFUSALS[name]
    with pytest.raises(ValueError, match=sentence):
        tessera.attend(*sequences()[1], **options)


def test_plans_say_that_entries_are_worked_out_alone():
    q, k, v = sequences()[1]
    assert "alone" in tessera.explain(q, k, v, query_offsets=np.int32([0, 3]))
    assert tessera.plan(q, k, v, query_offsets=np.int32([0, 3]))["flops"] > 0


def test_arrays_of_jax_traced_and_not():
    jax = need("jax")
    batch = sequences()
    q = np.concatenate([q for q, _, _ in batch], axis=2)
    k, v, table = paged(batch, 16)
    serving = {"query_offsets": offsets([q.shape[2] for q, _, _ in batch]), "page_table": table,
               "key_lengths": np.int32([k.shape[2] for _, k, _ in batch])}  # fmt: skip
    want = tessera.attend(q, k, v, causal="bottom-right", **serving)

    def attend(q, k, v, serving):
        return tessera.attend(q, k, v, causal="bottom-right", invariant=True, **serving)

    arrays = jax.tree.map(jax.numpy.asarray, (q, k, v, serving))
    np.testing.assert_array_equal(attend(*arrays), want)
    np.testing.assert_array_equal(jax.jit(attend)(*arrays), want)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda q: attend(q, *arrays[1:]).sum())(arrays[0])


def test_tensors_of_pytorch():
    torch = need("torch")
    batch = sequences()
    q = np.concatenate([q for q, _, _ in batch], axis=2)
    k, v, table = paged(batch, 16)
    serving = {"query_offsets": offsets([q.shape[2] for q, _, _ in batch]), "page_table": table,
               "key_lengths": np.int32([k.shape[2] for _, k, _ in batch])}  # fmt: skip
    want = tessera.attend(q, k, v, **serving)
    tensors = [torch.from_numpy(t) for t in (q, k, v)]
    serving = {name: torch.from_numpy(t) for name, t in serving.items()}
    np.testing.assert_array_equal(tessera.attend(*tensors, **serving).numpy(), want)
    tensors[0].requires_grad_()
    with pytest.raises(ValueError, match="query_offsets= has no gradient"):
        tessera.attend(*tensors, **serving)
