"""The case list, read from the command line (`tessera kernels --cases --json`), and tensors for a case.

Nothing here knows a shape: the one list lives in cases/, and `--sweep` only changes the length of a case.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    group: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    value_dim: int
    dtype: str  # float32, float16, bfloat16
    causal: str | None
    layout: str
    flops: float
    bytes: float
    options: tuple[str, ...]  # words beyond these, which not every peer can compute

    @property
    def causal_flag(self) -> bool | None:
        """What PyTorch calls is_causal (top-left); None if it has no flag for this case."""
        if self.causal is None or (self.queries == 1 and self.causal == "bottom-right"):
            return False
        return True if self.causal == "top-left" or self.queries == self.keys else None

    def with_length(self, length: int) -> Case:
        """The same case with another number of queries and keys."""
        pairs = length * (length + 1) / 2 if self.causal else length * length
        item = 4 if self.dtype == "float32" else 2
        rows = self.heads * (self.dim + self.value_dim) + self.kv_heads * (self.dim + self.value_dim)
        return dataclasses.replace(
            self,
            name=f"{self.name}@{length}",
            queries=length,
            keys=length,
            flops=2.0 * self.batch * self.heads * pairs * (self.dim + self.value_dim),
            bytes=float(self.batch * rows * length * item),
        )


def from_words(name: str, group: str, words: str, flops: float, bytes_: float) -> Case:
    sizes: dict[str, str] = {}
    flags: dict[str, str] = {}
    dtype, rest = "float32", []
    for word in words.split():
        size = re.fullmatch(r"([bhqkdv])([0-9/]+)", word)
        if size:
            sizes[size[1]] = size[2]
        elif word in DTYPES:
            dtype = DTYPES[word]
        elif word.startswith(("causal=", "layout=")):
            key, value = word.split("=", 1)
            flags[key] = value
        else:
            rest.append(word)
    heads, _, kv_heads = sizes.get("h", "1").partition("/")
    queries, dim = int(sizes["q"]), int(sizes["d"])
    return Case(
        name, group, int(sizes.get("b", 1)), int(heads), int(kv_heads or heads), queries,
        int(sizes.get("k", queries)), dim, int(sizes.get("v", dim)), dtype, flags.get("causal"),
        flags.get("layout", "bhsd"), flops, bytes_, tuple(rest),
    )  # fmt: skip


def find_command(given: str | None) -> str:
    """The program `tessera`: as given, of the installed package, of a build tree here, or on the PATH."""
    candidates = [given] if given else []
    try:
        from tessera._cli import binary

        candidates.append(str(binary()))
    except ImportError:
        pass
    candidates += [str(p) for p in sorted(ROOT.glob("build/*/tessera"))]
    candidates.append(shutil.which("tessera") or "")
    for path in candidates:
        if path and pathlib.Path(path).is_file():
            return path
    sys.exit("no `tessera` program found; build it (make build) or name it with --tessera")


def load(command: str) -> dict[str, Case]:
    done = subprocess.run([command, "kernels", "--cases", "--json"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{command} kernels --cases --json failed: {done.stderr.strip()}")
    rows = json.loads(done.stdout)["cases"]
    return {r["name"]: from_words(r["name"], r["group"], r["words"], r["flops"], r["bytes"]) for r in rows}


def choose(known: dict[str, Case], names: list[str], groups: list[str], sweeps: list[str]) -> list[Case]:
    """Named cases, whole groups, and sweeps written CASE:256,512,1024. Unknown names end the program."""
    for name in [*names, *(s.partition(":")[0] for s in sweeps)]:
        if name not in known:
            sys.exit(f"no case '{name}'; `tessera kernels --cases` lists them")
    chosen = [known[name] for name in names]
    chosen += [c for c in known.values() if c.group in groups and c not in chosen]
    for sweep in sweeps:
        name, _, lengths = sweep.partition(":")
        chosen += [known[name].with_length(int(n)) for n in lengths.split(",")]
    return chosen


def arrays(case: Case, seed: int = 0):
    """Random normal q, k, v as NumPy arrays, [batch, heads, rows, dim], already rounded to the case's dtype."""
    rng = np.random.default_rng(seed)
    shapes = (
        (case.batch, case.heads, case.queries, case.dim),
        (case.batch, case.kv_heads, case.keys, case.dim),
        (case.batch, case.kv_heads, case.keys, case.value_dim),
    )
    dtype = case.dtype
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    return tuple(in_layout(rng.standard_normal(s, dtype=np.float32).astype(dtype), case.layout) for s in shapes)


def in_layout(array, layout: str):
    if layout != "bshd":
        return array
    return np.ascontiguousarray(array.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)


def tensors(case: Case, device: str, seed: int = 0):
    """The same as tensors of PyTorch, made where they are used."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    dtype = getattr(torch, case.dtype)

    def make(heads, rows, dim):
        if case.layout == "bshd":
            shape = (case.batch, rows, heads, dim)
            return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(dtype).transpose(1, 2)
        return torch.randn((case.batch, heads, rows, dim), generator=generator, device=device).to(dtype)

    return (
        make(case.heads, case.queries, case.dim),
        make(case.kv_heads, case.keys, case.dim),
        make(case.kv_heads, case.keys, case.value_dim),
    )
