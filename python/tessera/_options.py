"""The keyword arguments of attend() in the form of the C interface, for the frameworks that trace.

The binding reads them in C when it is given memory; a traced call has no memory yet, so the same rules
stand here once more. The tests hold the two against each other.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

ALIGN = {None: 0, "top-left": 1, "bottom-right": 2}
UNBOUNDED = -1
FLOAT32_TINY = 2.0**-126  # the smallest normal float32


class Options(NamedTuple):
    """Everything of a call that is not an array. Hashable, so that tracing can be cached by it."""

    align: int = 0
    left: int = UNBOUNDED
    right: int = UNBOUNDED
    scale: float = 0.0
    softcap: float = 0.0
    kernel: str = ""


def align_of(value: Any, name: str) -> int:
    if value not in ALIGN:
        raise ValueError(f"{name} is {value!r}; 'top-left', 'bottom-right' or None is accepted")
    return ALIGN[value]


def _is_number(value: Any) -> bool:
    """Whole numbers of any kind, those of NumPy included; an array with a length is a sequence of them."""
    if isinstance(value, int):
        return True
    if not hasattr(value, "__index__"):
        return False
    try:
        len(value)
    except TypeError:
        return True
    return False


def _side(value: Any) -> int:
    if value is None:
        return UNBOUNDED
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # True is a mistake here
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise ValueError(
            f"window has a side of {value} keys; a whole number, 0 or more, or None for no limit, is accepted"
        )
    return number


def _window(window: Any) -> tuple[int, int, int]:
    given = window
    if _is_number(window):
        window = (window, None)
    elif hasattr(window, "__index__"):  # an array of numbers
        window = tuple(window)
    if not isinstance(window, (tuple, list)) or len(window) not in (2, 3):
        raise ValueError(
            f"window is {given!r}; a number of keys, (left, right) or (left, right, 'top-left' | "
            "'bottom-right') is accepted"
        )
    left, right = _side(window[0]), _side(window[1])
    return left, right, align_of(window[2], "window[2]") if len(window) == 3 else 0


def parse(causal, window, scale, softcap, kernel, *, queries: int, keys: int, has_lengths: bool) -> Options:
    """Raises ValueError with the same sentences as tessera.attend()."""
    align = align_of(causal, "causal")
    left = right = UNBOUNDED
    if window is not None:
        left, right, window_align = _window(window)
        if causal is not None and right > 0:
            raise ValueError(
                f"window reaches {right} keys ahead, but causal hides all of them; 0 or None is accepted"
            )
        if causal is not None and window_align not in (0, align):
            raise ValueError("window and causal name different alignments; name one")
        align = window_align or align
        if align == 0:
            if queries != keys or has_lengths:
                raise ValueError(
                    "window needs an alignment where queries and keys may differ in number: write "
                    "window=(left, right, 'top-left') or (left, right, 'bottom-right')"
                )
            align = ALIGN["top-left"]
    if causal is not None:
        right = 0
    if scale is None:
        scale = 0.0
    elif scale == 0:  # to the C interface 0 means the default; see call.cpp
        scale = FLOAT32_TINY
    return Options(align, left, right, float(scale), float(softcap or 0.0), kernel or "")
