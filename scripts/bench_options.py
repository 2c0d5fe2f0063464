"""The options of a case as numbers and arrays, made by the same rules as cases/masks.cpp and cases/instance.cpp.

What a seed draws is a function of (seed, stream, index) alone, in integers, so both sides hold the same mask, lengths,
slopes and sinks; tests hold them to the same values.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import numpy as np

SEED = 1  # of `tessera verify` and `tessera bench` too
# Streams, as cases/random.hpp numbers them.
MASK, HIDDEN_ROW, LENGTHS, SINKS, CHOICES = 4, 5, 6, 7, 8
CHUNK = 1 << 22  # elements of a mask made at a time

SHAPES = {  # which of batch, heads, queries and keys a mask has
    "full": (1, 1, 1, 1), "keys": (0, 0, 0, 1), "queries": (0, 0, 1, 0), "queries-keys": (0, 0, 1, 1),
    "heads-keys": (0, 1, 0, 1), "heads-queries-keys": (0, 1, 1, 1), "batch-keys": (1, 0, 0, 1),
    "batch-queries-keys": (1, 0, 1, 1),
}  # fmt: skip
LOWEST = {"float16": -65504.0, "bfloat16": -float.fromhex("0x1.fep127"), "float32": -float.fromhex("0x1.fffffep127")}


def scramble(x):
    """SplitMix64's output function on arrays of uint64."""
    x = np.asarray(x, np.uint64)
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Random:
    def __init__(self, seed: int, stream: int):
        self.key = scramble(scramble(seed) ^ np.uint64(stream * 0xD1342543DE82EF95 % 2**64))

    def word(self, index):
        with np.errstate(over="ignore"):
            return scramble(self.key + np.asarray(index, np.uint64))

    def below(self, index: int, limit: int) -> int:
        return int(self.word(index)) % limit

    def normal(self, index: int) -> float:
        return normal_table()[int(self.word(index >> 2)) >> 16 * (index & 3) & 0xFFFF]


@functools.cache
def normal_table() -> np.ndarray:
    words = scramble(np.arange(65536 * 4, dtype=np.uint64)).reshape(-1, 4)
    parts = sum((words >> np.uint64(s)) & np.uint64(0xFFFFF) for s in (0, 20, 40))
    total = parts.astype(np.int64).sum(axis=1)
    return ((total - 6 * 0xFFFFF) / 0xFFFFF).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Mask:
    boolean: bool
    dtype: str  # of an additive mask
    real: tuple  # which of batch, heads, queries and keys it has
    content: str  # random, documents, blocks, tiles, padding, bias
    block: int
    lowest: bool


def parse_mask(value: str, case, seed: int) -> Mask:
    kind, *parts = value.split(":")
    found = {"real": SHAPES["full"], "content": "random", "block": 0, "lowest": False}
    for part in parts:
        word = re.fullmatch(r"(documents|blocks|tiles|padding|bias)(\d*)", part)
        if part in SHAPES:
            found["real"] = SHAPES[part]
        elif part == "lowest":
            found["lowest"] = True
        elif word:
            found |= {"content": word[1], "block": int(word[2] or 0)}
        else:
            raise ValueError(f"mask={value}: {part} is not known here")
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
    drawn = ("float32", "float16", "bfloat16", case.dtype)[Random(seed, CHOICES).below(2, 4)]
    return Mask(boolean=kind == "boolean", dtype=names.get(kind.partition("-")[2], drawn), **found)


def mask_shape(case, mask: Mask) -> tuple:
    return tuple(n if real else 1 for n, real in zip((case.batch, case.heads, case.queries, case.keys), mask.real))


def padded_length(draws: Random, entry: int, keys: int) -> int:
    return keys if entry % 4 == 0 else keys - draws.below(entry, keys * 3 // 4 + 1)


def _hidden(case, mask: Mask, draws: Random, rows: Random, noise, row, key):
    """Which of the elements at (row, key) of the mask hide."""
    _, heads, queries, keys = mask_shape(case, mask)
    query, side = row % queries, mask.block
    if mask.content == "random":
        return noise % np.uint64(8) == 0
    if mask.content in ("documents", "blocks"):
        at = query + case.keys - case.queries
        outside = (at < 0) | (at // side != key // side)
        return outside | (key > at) if mask.content == "documents" else outside
    if mask.content == "padding":
        lengths = np.array([padded_length(draws, b, keys) for b in range(case.batch)])
        return key >= lengths[row // (heads * queries)]
    if mask.content == "tiles":
        down, across = -(-queries // side), -(-keys // side)
        row_of_tiles = row // queries * down + query // side
        state = rows.word(row_of_tiles * across + key // side + (1 << 31)) % np.uint64(3)
        inside = np.where(state == 2, noise % np.uint64(2) == 0, state == 0)
        return (rows.word(row_of_tiles + (1 << 30)) % np.uint64(4) == 0) | inside
    return np.zeros(len(row), bool)


def mask_array(case, mask: Mask, seed: int = SEED) -> np.ndarray:
    """Rank 4. Boolean, or float32 holding what the mask's own type can hold."""
    shape = mask_shape(case, mask)
    draws, rows = Random(seed, MASK), Random(seed, HIDDEN_ROW)
    out = np.empty(int(np.prod(shape)), bool if mask.boolean else np.float32)
    for start in range(0, out.size, CHUNK):
        e = np.arange(start, min(start + CHUNK, out.size), dtype=np.int64)
        noise = draws.word(e)
        hidden = _hidden(case, mask, draws, rows, noise, e // shape[3], e % shape[3])
        if mask.boolean:
            out[start : start + CHUNK] = ~hidden
            continue
        zero = mask.content in ("documents", "padding")
        bias = np.float32(0) if zero else normal_table()[noise >> np.uint64(48)]
        out[start : start + CHUNK] = np.where(hidden, LOWEST[mask.dtype] if mask.lowest else -np.inf, bias)
    return _as_type(out, mask).reshape(shape)


def _as_type(values: np.ndarray, mask: Mask) -> np.ndarray:
    if mask.boolean or mask.dtype == "float32":
        return values
    if mask.dtype == "float16":
        return values.astype(np.float16).astype(np.float32)
    bits = values.view(np.uint32)  # round to nearest even; no NaN here
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)


def key_lengths(case, seed: int = SEED) -> np.ndarray:
    draws, period = Random(seed, LENGTHS), 4 if case.batch > 1 else 8
    turn = draws.below(0, period)
    special = {0: case.keys, 1: 0}
    return np.array([special.get((b + turn) % period, draws.below(1 + b, case.keys + 1)) for b in range(case.batch)], np.int64)


def alibi_slopes(case, seed: int = SEED) -> np.ndarray:
    """[batch, heads] or, where the seed says so, [heads]."""
    heads = np.float32(0.5) / np.arange(1, case.heads + 1, dtype=np.float32)
    if Random(seed, CHOICES).below(1, 2) == 1:
        return heads
    return heads[None, :] + np.float32(0.01) * np.arange(case.batch, dtype=np.float32)[:, None]


def sink_logits(case, seed: int = SEED) -> np.ndarray:
    draws = Random(seed, SINKS)
    none = [draws.below(h + (1 << 20), 8) == 0 for h in range(case.heads)]
    return np.array([-np.inf if n else draws.normal(h) for h, n in enumerate(none)], np.float32)


@dataclasses.dataclass
class Options:
    """What a case asks for beyond q, k, v and a causal flag. Arrays are NumPy's or, after to_torch, PyTorch's."""

    align: str | None = None  # of the band; None: no band
    left: int | None = None
    right: int | None = None
    scale: float | None = None
    softcap: float = 0.0
    spec: Mask | None = None
    mask: object = None  # rank 4
    padded: object = None  # [batch]: the lengths behind a mask of padding
    lengths: object = None  # [batch]
    alibi: object = None  # [heads] or [batch, heads]
    sinks: object = None  # [heads]

    def to_torch(self, device: str) -> Options:
        import torch

        moved = {name: torch.from_numpy(np.ascontiguousarray(getattr(self, name))).to(device)
                 for name in ("mask", "padded", "lengths", "alibi", "sinks") if getattr(self, name) is not None}  # fmt: skip
        if self.spec and not self.spec.boolean:
            moved["mask"] = moved["mask"].to(getattr(torch, self.spec.dtype))
        return dataclasses.replace(self, **moved)


def make(case, seed: int = SEED) -> Options:
    """From the words of a case. A word that is not known ends in ValueError."""
    found = Options(align=case.causal, right=0 if case.causal else None)
    for word in case.options:
        name, _, value = word.partition("=")
        if name == "align":
            found.align = value
        elif name == "window":
            left, right = (None if side == "inf" else int(side) for side in value.split(","))
            found.left, found.right = left, right
        elif name in ("scale", "softcap"):
            setattr(found, name, float(value))
        elif name == "mask":
            found.spec = parse_mask(value, case, seed)
            found.mask = mask_array(case, found.spec, seed)
            if found.spec.content == "padding":
                draws = Random(seed, MASK)
                found.padded = np.array([padded_length(draws, b, case.keys) for b in range(case.batch)])
        elif word == "lengths":
            found.lengths = key_lengths(case, seed)
        elif word == "alibi":
            found.alibi = alibi_slopes(case, seed)
        elif word == "sinks":
            found.sinks = sink_logits(case, seed)
        else:
            raise ValueError(f"{case.name}: the word {word} is not known here")
    return found


def keywords(case, options: Options) -> dict:
    """For tessera.attend."""
    found = {"causal": case.causal}
    if options.left is not None or (options.align and not case.causal):
        found["window"] = (options.left, None if case.causal else options.right, options.align)
    for name, value in (("mask", options.mask), ("key_lengths", options.lengths), ("alibi", options.alibi),
                        ("sinks", options.sinks), ("scale", options.scale), ("softcap", options.softcap or None)):  # fmt: skip
        if value is not None:
            found[name] = value
    return found


def position(case, options: Options, b: int) -> int:
    """What is added to a query's index to have its place among the keys."""
    if options.align != "bottom-right":
        return 0
    return (case.keys if options.lengths is None else int(options.lengths[b])) - case.queries


def finished_scores(case, options: Options, dots, b: int, h: int, rows):
    """Scores of some rows of a head from their dot products, in the precision of `dots`; -inf where hidden.

    `options` holds NumPy arrays. This is the oracle's part of the formula in tessera.h, written once more.
    """
    number = dots.dtype.type
    s = dots * number(case.dim**-0.5 if options.scale is None else options.scale)
    at = rows[:, None] + position(case, options, b)
    key = np.arange(case.keys)[None, :]
    if options.softcap:
        s = number(options.softcap) * np.tanh(s / number(options.softcap))
    if options.alibi is not None:
        slope = options.alibi[h] if options.alibi.ndim == 1 else options.alibi[b, h]
        s = s - number(slope) * np.abs(at - key).astype(number)
    hidden = np.zeros(s.shape, bool)
    if options.align:
        hidden |= (key < at - options.left) if options.left is not None else False
        hidden |= (key > at + options.right) if options.right is not None else False
    if options.lengths is not None:
        hidden |= key >= int(options.lengths[b])
    if options.mask is not None:
        m = options.mask
        m = m[b if m.shape[0] > 1 else 0, h if m.shape[1] > 1 else 0]
        m = m[rows] if m.shape[0] > 1 else m
        hidden |= ~m if options.spec.boolean else m == -np.inf
        s = s if options.spec.boolean else s + np.where(m == -np.inf, 0, m).astype(number)
    return np.where(hidden, number(-np.inf), s)
