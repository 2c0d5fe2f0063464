"""What sdpa() did with the calls it got: how many Tessera computed, and how many PyTorch, for which reason."""

from __future__ import annotations

import collections
import threading

from . import _binding


class Report:
    """What happened since it was made, until it is closed.

    `calls` counts the attention that Tessera computed on tensors of PyTorch, compiled or not; the replay of a
    CUDA graph is nobody's call. `fallbacks` counts the calls that sdpa() left to PyTorch, by reason. Compiled code
    decides while it is compiled: `compiled_fallbacks` are the reasons of that, and how often it ran nobody counts.
    """

    def __init__(self) -> None:
        self.fallbacks: collections.Counter[str] = collections.Counter()
        self.compiled_fallbacks: set[str] = set()
        self._first = _binding.torch_calls()
        self._last: int | None = None

    @property
    def calls(self) -> int:
        return (_binding.torch_calls() if self._last is None else self._last) - self._first

    def close(self) -> None:
        self._last = _binding.torch_calls()

    def __str__(self) -> str:
        lines = [f"{self.calls} calls on Tessera, {self.fallbacks.total()} on PyTorch"]
        lines += [f"  {count} x {why}" for why, count in self.fallbacks.most_common()]
        lines += [f"  compiled for PyTorch: {why}" for why in sorted(self.compiled_fallbacks)]
        return "\n".join(lines)


lock = threading.Lock()
total = Report()
open_reports: list[Report] = [total]
_last_fallback: str | None = None


def note_fallback(why: str, traced: bool) -> None:
    global _last_fallback
    with lock:
        _last_fallback = why
        for report in open_reports:
            if traced:
                report.compiled_fallbacks.add(why)
            else:
                report.fallbacks[why] += 1


def last_fallback() -> str | None:
    """Why sdpa() last left a call to PyTorch; None if it never did."""
    return _last_fallback


def fallbacks() -> collections.Counter[str]:
    """Every reason so far, with how often it came up."""
    with lock:
        return collections.Counter(total.fallbacks)
