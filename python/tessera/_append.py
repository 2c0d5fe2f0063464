"""Rope: the tables of rotary embedding and how pairs of dimensions lie, for attend(rope=...)."""

from __future__ import annotations

import operator


class Rope:
    """Tables of angles, [positions, n] float32, and which 2n dimensions of a row they turn, from `first` on.

    Pair j is dimensions first + j and first + n + j (halves), or first + 2j and first + 2j + 1 (interleaved).
    """

    __slots__ = ("cos", "sin", "interleaved", "first")

    def __init__(self, cos, sin, interleaved=False, first=0):
        self.cos, self.sin, self.interleaved, self.first = cos, sin, interleaved, first

    def __repr__(self):
        return f"Rope(cos={self.cos!r}, sin={self.sin!r}, interleaved={self.interleaved}, first={self.first})"


def split(rope):
    """(cos, sin, interleaved, first) of a pair or a Rope, with the sentences of the binding."""
    if isinstance(rope, (tuple, list)) and len(rope) == 2:
        return (*rope, False, 0)
    if not isinstance(rope, Rope):
        raise ValueError("rope is no pair; (cos, sin) or tessera.Rope(cos, sin, ...) is accepted")
    try:
        first = -1 if isinstance(rope.first, bool) else operator.index(rope.first)
    except TypeError:
        first = -1
    if not 0 <= first < 2**31:
        raise ValueError(f"rope.first is {rope.first!r}; a whole number, 0 or more, is accepted")
    return rope.cos, rope.sin, bool(rope.interleaved), first
