#!/usr/bin/env python3
"""Random small shapes and masked ones on a CPU, beside PyTorch: same process, same tensors, taking turns.

    scripts/sweep-small.py --threads 1 --count 300 --seed 1      # random small shapes
    scripts/sweep-small.py --masks --threads 2                   # boolean and float masks of 1,024 keys
    scripts/sweep-small.py --shape 1,8,17,300,64                 # one shape: batch,heads[/kv],queries,keys,dim[,dtype]

Prints the shapes where PyTorch is ahead most, and how the ratios (PyTorch's time / ours, median of rounds; above 1
we are faster) are spread. Every shape is checked against PyTorch before it is timed. Run it on a quiet machine.
--call sdpa times tessera.torch.sdpa, the drop-in, instead of tessera.attend.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import random
import sys
import time

import bench_measure as measure
import numpy as np
import torch
import torch.nn.functional as F

import tessera

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}
PAUSE = 0.02  # seconds between contenders, in which the other library's idle threads stop spinning
BORDERS = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0)


@dataclasses.dataclass(frozen=True)
class Shape:
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    dtype: str = "f32"
    mask: str = ""

    def __str__(self) -> str:
        heads = str(self.heads) if self.heads == self.kv_heads else f"{self.heads}/{self.kv_heads}"
        words = f"{self.batch},{heads},{self.queries},{self.keys},{self.dim},{self.dtype}"
        return f"{words} {self.mask}".strip()

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.heads * self.queries * self.keys * self.dim


def random_shape(draw: random.Random, most_flops: float) -> Shape:
    """Few rows, few keys, narrow heads and large batches, each more often than in real life."""
    while True:
        kv_heads = draw.choice([1, 2, 3, 4, 8, 16])
        group = draw.choice([1, 1, 1, 2, 4, 8])
        shape = Shape(
            batch=draw.choice([1, 1, 1, 2, 3, 4, 8, 32, 256]),
            heads=kv_heads * group,
            kv_heads=kv_heads,
            queries=draw.choice([1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 33, 40, 48, 63, 64]),
            keys=draw.choice([1, 2, 3, 7, 16, 17, 33, 64, 100, 128, 300, 512, 1000, 2048, 4096]),
            dim=draw.choice([1, 2, 4, 8, 8, 16, 20, 24, 32, 40, 64, 64, 64, 80, 96, 128, 128, 256]),
            dtype=draw.choice(["f32", "f32", "f32", "f32", "f16", "bf16"]),
        )
        if shape.flops <= most_flops:
            return shape


def masked_shapes() -> list[Shape]:
    kinds = ["none", "random [S,S]", "random [B,H,S,S]", "padding [B,1,1,S]", "documents [S,S]", "causal [S,S]",
             "float random [S,S]", "float causal [S,S]", "float padding [B,1,1,S]"]  # fmt: skip
    return [Shape(1, 16, 16, 1024, 1024, dim, "f32", kind) for dim in (64, 128) for kind in kinds]


def parse_shape(text: str) -> Shape:
    parts = text.split(",")
    heads, _, kv_heads = parts[1].partition("/")
    sizes = [int(p) for p in (parts[0], heads, kv_heads or heads, *parts[2:5])]
    return Shape(*sizes, parts[5] if len(parts) > 5 else "f32")


def make_mask(shape: Shape):
    """None, or a mask that both libraries take; 80% of a random one is visible, a quarter of the padding is not."""
    if shape.mask in ("", "none"):
        return None
    s = shape.keys
    if "random" in shape.mask:
        size = (shape.batch, shape.heads, s, s) if "[B,H" in shape.mask else (s, s)
        visible = torch.rand(size) < 0.8
    elif "padding" in shape.mask:
        visible = (torch.arange(s) < s * 3 // 4).expand(shape.batch, 1, 1, s).contiguous()
    elif "documents" in shape.mask:
        document = torch.arange(s) * 5 // s
        visible = document[:, None] == document[None, :]
    else:
        visible = torch.ones(s, s).tril().bool()
    if shape.mask.startswith("float"):
        return torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)
    return visible


def contenders(shape: Shape, call: str) -> dict:
    kind = DTYPES[shape.dtype]
    q = torch.randn(shape.batch, shape.heads, shape.queries, shape.dim).to(kind)
    k, v = (torch.randn(shape.batch, shape.kv_heads, shape.keys, shape.dim).to(kind) for _ in range(2))
    mask = make_mask(shape)
    theirs = {"attn_mask": mask} if mask is not None else {}
    if shape.heads != shape.kv_heads:
        theirs["enable_gqa"] = True
    if call == "sdpa":
        import tessera.torch as drop_in

        ours = {"tessera": lambda: drop_in.sdpa(q, k, v, **theirs)}
    else:
        # tessera.attend wants four dimensions of a mask; PyTorch adds the leading ones itself.
        full = mask[(None,) * (4 - mask.dim())] if mask is not None else None
        options = {"mask": full} if mask is not None else {}
        ours = {"tessera": lambda: tessera.attend(q, k, v, **options)}
    return ours | {"torch": lambda: F.scaled_dot_product_attention(q, k, v, **theirs)}


def time_shape(shape: Shape, call: str, rounds: int, threads: int) -> dict:
    calls = contenders(shape, call)
    torch.testing.assert_close(calls["tessera"](), calls["torch"](), atol=TOLERANCE[shape.dtype], rtol=1e-2)
    repeats = {}
    for name, one in calls.items():
        began = time.perf_counter()
        one()
        repeats[name] = max(1, min(500, int(0.002 / max(time.perf_counter() - began, 1e-6))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        names = list(calls) if turn % 2 == 0 else list(calls)[::-1]
        for name in names:
            if threads > 1:
                time.sleep(PAUSE)
            one, count = calls[name], repeats[name]
            one()
            began = time.perf_counter()
            for _ in range(count):
                one()
            samples[name].append((time.perf_counter() - began) / count * 1e6)
    ratio = float(np.median(np.asarray(samples["torch"]) / np.asarray(samples["tessera"])))
    times = {f"{name}_us": float(np.median(found)) for name, found in samples.items()}
    return {"shape": str(shape), "ratio": ratio, **times}


def print_found(rows: list[dict], worst: int) -> None:
    for row in sorted(rows, key=lambda r: r["ratio"])[:worst]:
        print(f"  {row['ratio']:5.2f}x  {row['shape']:<34} tessera {row['tessera_us']:9.1f} µs, torch {row['torch_us']:9.1f} µs")
    ratios = [row["ratio"] for row in rows]
    edges = [0.0, *BORDERS, np.inf]
    print("\nPyTorch's time / ours   shapes")
    for low, high in zip(edges, edges[1:]):
        count = sum(low <= r < high for r in ratios)
        print(f"  {low:4.2f} to {high:4.2f}   {count:6}  {'#' * round(60 * count / len(ratios))}")
    print(f"{sum(r < 1 for r in ratios)} of {len(ratios)} below 1, geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="random shapes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most-flops", type=float, default=2e7, help="of a random shape")
    parser.add_argument("--masks", action="store_true", help="masks of 1,024 queries and keys instead")
    parser.add_argument("--shape", action="append", default=[], type=parse_shape, help="this one; may be repeated")
    parser.add_argument("--call", choices=["attend", "sdpa"], default="attend")
    parser.add_argument("--worst", type=int, default=25, help="how many to print")
    parser.add_argument("--json", type=pathlib.Path, help="keep all ratios")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    tessera.set_threads(options.threads)
    draw = random.Random(options.seed)
    shapes = options.shape or [random_shape(draw, options.most_flops) for _ in range(options.count)]
    if options.masks:
        shapes = masked_shapes()
    shapes = list(dict.fromkeys(shapes))
    rows = [time_shape(shape, options.call, options.rounds, options.threads) for shape in shapes]
    print_found(rows, options.worst)
    if options.json:
        environment = measure.environment("cpu") | {"threads": options.threads, "call": options.call}
        measure.write_json(options.json, {"environment": environment, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
