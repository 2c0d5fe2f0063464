"""The table of what each option costs, for docs/numbers.md, docs/options.md and the README.

A row is a case of the group "costs" with an option (f32 counts as one); its plain twin is the case of the same shape
without it, in bf16. Every figure comes from one run of scripts/compare.py: costs.json where a run has that name, else
compare.json. A cell whose number is not there stays empty.
"""

from __future__ import annotations

import json
import pathlib

FLEX = "FlexAttention"
SHAPE = ("batch", "heads", "kv_heads", "queries", "keys", "dim", "causal")
HEADER = ["<case", "<option", "Tessera µs", "TFLOP/s", "plain µs", "of plain", FLEX, "SDPA"]


def load(folder: pathlib.Path) -> tuple[str, dict | None]:
    """(file name, run or None)."""
    for name in ("costs.json", "compare.json"):
        if (folder / name).exists():
            return name, json.loads((folder / name).read_text())
    return "", None


def time_of(row: dict | None) -> float | None:
    """Graph p50, or of single calls where a graph could not be had."""
    timed = (row or {}).get("graph") or (row or {}).get("single")
    return timed["p50_us"] if timed else None


def is_option(row: dict) -> bool:
    return row.get("group") == "costs" and bool(row.get("options") or row.get("dtype") == "float32")


def option_of(row: dict) -> str:
    words = ["float32"] if row["dtype"] == "float32" else []
    return " ".join(words + ([row["options"]] if row["options"] else []))


def twin_of(row: dict, rows: list[dict]) -> dict | None:
    """Tessera's row of the same shape without options."""
    dtype = "bfloat16" if row["dtype"] == "float32" else row["dtype"]
    for other in rows:
        same = all(other.get(key) == row.get(key) for key in SHAPE) and other.get("dtype") == dtype
        if same and other["contender"] == "tessera" and not other.get("options") and time_of(other):
            return other
    return None


def _us(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _over(theirs: float | None, ours: float | None) -> str:
    return f"{theirs / ours:.2f}×" if theirs and ours else ""


def table_rows(run: dict) -> list[list[str]]:
    """One for each case that was asked about; peers' columns are their time over ours."""
    rows = run["rows"]
    lines = []
    for row in rows:
        if row["contender"] != "tessera" or not is_option(row):
            continue
        ours, plain = time_of(row), time_of(twin_of(row, rows))
        others = [r for r in rows if r["case"] == row["case"]]
        flex = next((time_of(r) for r in others if r["contender"] == FLEX), None)
        sdpa = [t for r in others if r["contender"].startswith("torch ") and (t := time_of(r))]
        rate = f"{row['flops'] / ours * 1e-6:.0f}" if ours else ""
        lines.append([row["case"], f"`{option_of(row)}`", _us(ours), rate, _us(plain), _over(ours, plain), _over(flex, ours),
                      _over(min(sdpa, default=None), ours)])  # fmt: skip
    return lines


def markdown(run: dict | None) -> str:
    """Empty where there is nothing measured."""
    lines = table_rows(run) if run else []
    if not any(line[2] for line in lines):
        return ""
    names = [name.lstrip("<") for name in HEADER]
    head = ["| " + " | ".join(names) + " |", "|" + "|".join("---" if n.startswith("<") else "---:" for n in HEADER) + "|"]
    return "\n".join(head + ["| " + " | ".join(line) + " |" for line in lines]) + "\n"


EXPLAINED = (
    "\"plain\" is the same shape without the option (of float32: in bf16), \"of plain\" our time over that: below 1 where a "
    "mask or a window leaves less to compute. FlexAttention (compiled, its block mask made beforehand) and SDPA (with an "
    "attn_mask; the fastest of PyTorch's backends that were timed): their time over ours, above 1 Tessera is faster. "
    "TFLOP/s count visible pairs, but padding and lengths as if all were visible."
)
