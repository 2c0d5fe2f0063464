#!/usr/bin/env python3
"""Decode steps with cold caches over what an engine keeps: caches of 8 bits, latent attention, append with RoPE.

    scripts/serving_caches.py                   # writes bench/results/<gpu>/serving-caches.json
    scripts/serving_caches.py --only latent     # caches, latent or append alone; writes nothing
    scripts/serving_caches.py --table FILE      # what was written earlier, as Markdown

As scripts/serving.py: one process, contenders in turns on the same values, K and V rotating through more memory than L2
holds in a CUDA graph of many calls, and each contender held to a float64 reference before it is timed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys

import bench_measure as measure
import serving

ROOT = pathlib.Path(__file__).resolve().parents[1]
# batch, heads, KV heads, rows, keys, dim
CACHES = [(1, 32, 8, 1, 32768, 128), (8, 32, 8, 1, 4096, 128), (8, 32, 8, 5, 4096, 128), (8, 64, 4, 1, 4096, 128), (32, 32, 8, 1, 4096, 128),
          (32, 32, 8, 5, 4096, 128), (32, 64, 4, 1, 4096, 128), (128, 32, 8, 1, 2048, 128), (32, 64, 8, 1, 4096, 64), (32, 16, 4, 1, 4096, 256),
          (8, 32, 8, 16, 4096, 128), (1, 32, 8, 512, 8192, 128), (4, 32, 8, 2048, 2048, 128), (8, 32, 8, 64, 4096, 128), (4, 64, 8, 1024, 4096, 64),
          (2, 16, 4, 2048, 8192, 256)]  # fmt: skip
LATENT = [(batch, heads, 1, rows, keys, 576) for batch, rows, keys in ((1, 1, 4096), (1, 1, 32768), (8, 1, 4096), (64, 1, 4096), (64, 2, 4096)) for heads in (16, 128)]
APPEND = [(8, 32, 8, 1, 4096, 128), (64, 32, 8, 1, 1024, 128), (1, 32, 8, 1, 4096, 128), (8, 16, 1, 1, 4096, 576)]
SCALE_8 = 1 / 32  # of codes; so that a normal number uses the range of both formats


def name_of(case) -> str:
    batch, heads, kv_heads, rows, keys, dim = case
    return f"{batch} x {heads}/{kv_heads} x {rows} x {keys // 1024}k, d{dim}"


class Pool:
    """K and V of one case in copies that leave L2, dense or in pages, of bf16 or of codes."""

    def __init__(self, torch, case, dtype: str = "bf16", page: int = 0, tail: bool = False):
        self.torch, self.case, self.page = torch, case, page
        batch, heads, kv_heads, rows, keys, dim = case
        self.latent = dim > 256
        self.tensors = 1 if self.latent else 2
        self.bytes = batch * kv_heads * keys * dim * self.tensors * (2 if dtype == "bf16" else 1)
        if tail:
            self.bytes = batch * keys * (512 + 64 * 2)
        copies = max(2, -(-serving.COLD_BYTES // self.bytes))
        shape = (batch * keys // page, kv_heads, page, dim) if page else (batch, kv_heads, keys, dim)
        self.table = torch.randperm(batch * keys // page, device="cuda").view(batch, -1).int() if page else None
        self.lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
        self.q = torch.randn(batch, heads, rows, dim, device="cuda", dtype=torch.bfloat16)
        self.more = {} if dtype == "bf16" else {f"{n}_scales": torch.full((1, kv_heads, 1, 1), SCALE_8, device="cuda") for n in ("key", "value")}
        self.kv, self.tails = [], []
        for _ in range(copies):
            k, *v = (self.drawn(shape[:-1] + (512 if tail else dim,), dtype) for _ in range(self.tensors))
            self.kv.append((k, v[0] if v else k[..., :512]))
            self.tails.append({"key_tail": torch.randn(*shape[:-1], 64, device="cuda", dtype=torch.bfloat16)} if tail else {})

    def drawn(self, shape, dtype: str):
        x = self.torch.randn(*shape, device="cuda", dtype=self.torch.bfloat16)
        if dtype == "bf16":
            return x
        x = x.float() / SCALE_8
        return x.to(self.torch.float8_e4m3fn) if dtype == "e4m3" else x.round().clamp(-127, 127).to(self.torch.int8)

    def calls(self, space, **more) -> list:
        import tessera

        if self.page:
            more |= {"page_table": self.table, "key_lengths": self.lengths}
        if self.case[3] > 1 or "new_key" in more or "rope" in more:
            more["causal"] = "bottom-right"
        return [lambda k=k, v=v, t=t: tessera.attend(self.q, k, v, workspace=space, **self.more, **t, **more) for (k, v), t in zip(self.kv, self.tails)]

    def error(self, out) -> float:
        """The largest of the first and last sequence's first and last head, as a part of the row's largest value."""
        torch, (batch, heads, kv_heads, rows, keys, _) = self.torch, self.case
        worst = 0.0
        for b, h in ((0, 0), (batch - 1, heads - 1)):
            k, v = (self.of(t, b, h * kv_heads // heads) for t in self.kv[0])
            if self.tails[0]:
                k = torch.cat((k, self.of(self.tails[0]["key_tail"], b, 0, 1.0)), -1)
            s = self.q[b, h].double() @ k.T / self.q.shape[-1] ** 0.5
            hidden = torch.arange(keys, device="cuda")[None] > torch.arange(rows, device="cuda")[:, None] + keys - rows
            right = s.masked_fill(hidden, float("-inf")).softmax(-1) @ v
            worst = max(worst, float(((out[b, h].double() - right).abs().amax(-1) / right.abs().amax(-1)).max()))
        return worst

    def of(self, t, b: int, head: int, scale: float | None = None):
        mine = t[b, head] if self.table is None else t[self.table[b].long(), head].flatten(0, 1)
        return mine.double() * (scale or (SCALE_8 if self.more else 1.0))


def measured(torch, case, contenders: dict, check: bool = True) -> dict:
    """`contenders`: {name: (pool, calls)}."""
    graphs, refused = {}, {}
    for name, (pool, calls) in contenders.items():
        error = pool.error(calls[0]()) if check else 0.0
        if not error < 1e-2:
            refused[name] = f"off by {error:.3g}"
            continue
        calls = calls * max(1, 24 // len(calls))
        graphs[name] = serving.captured(torch, calls), len(calls)
    rounds = {name: [] for name in graphs}
    for _ in range(9):
        for name, graph in graphs.items():
            rounds[name].append(serving.time_of(torch, *graph))
    us = {name: statistics.median(times) for name, times in rounds.items()}
    return {"case": name_of(case), "us": us, "bytes": {name: contenders[name][0].bytes for name in us}, "refused": refused}


def caches(torch, space) -> list[dict]:
    rows = []
    for case in CACHES:
        made = {}
        for dtype in ("bf16", "e4m3", "i8"):
            for page in (0, 16, 64):
                pool = Pool(torch, case, dtype, page)
                made[f"{dtype}, pages of {page}" if page else dtype] = pool, pool.calls(space)
        rows.append(measured(torch, case, made))
        us = rows[-1]["us"]
        rows[-1]["ratios"] = {n: us[n.replace(n.split(",")[0], "bf16")] / t for n, t in us.items() if not n.startswith("bf16")}
        said(rows[-1])
    return rows


def latent(torch, space) -> list[dict]:
    rows = []
    for case in LATENT:
        batch, heads, _, queries, keys, dim = case
        made = {}
        for page in (0, 16, 64):
            pool = Pool(torch, case, page=page)
            made[f"pages of {page}" if page else "dense"] = pool, pool.calls(space)
        if queries == 1 and keys == 4096:
            pool = Pool(torch, case, "e4m3", 64, tail=True)
            made["e4m3 and a tail, pages of 64"] = pool, pool.calls(space)
        rows.append(measured(torch, case, made))
        flops = 2 * batch * heads * queries * keys * (dim + 512)
        rows[-1]["ratios"] = {f"{n}: TFLOP/s": flops / t / 1e6 for n, t in rows[-1]["us"].items()}
        rows[-1]["ratios"] |= {f"{n}: of read": rows[-1]["bytes"][n] / serving.READ_TB_S / 1e6 / t for n, t in rows[-1]["us"].items()}
        said(rows[-1])
    return rows


def append(torch, space) -> list[dict]:
    rows = []
    for case in APPEND:
        batch, _, kv_heads, queries, keys, dim = case
        pool = Pool(torch, case, page=16)
        new = torch.randn(batch, kv_heads, queries, dim, device="cuda", dtype=torch.bfloat16)
        angles = torch.randn(keys, 32 if pool.latent else dim // 2, device="cuda")
        import tessera

        rope = tessera.Rope(angles.cos(), angles.sin(), interleaved=pool.latent, first=512 if pool.latent else 0)
        stored = {"new_key": new} | ({} if pool.latent else {"new_value": new})
        made = {"attend": (pool, pool.calls(space, causal="bottom-right")), "append": (pool, pool.calls(space, **stored)), "append and rope": (pool, pool.calls(space, **stored, rope=rope))}
        rows.append(measured(torch, case, made, check=False))
        us = rows[-1]["us"]
        rows[-1]["ratios"] = {f"{n}: more µs": t - us["attend"] for n, t in us.items() if n != "attend"}
        said(rows[-1])
    return rows


def said(row: dict) -> None:
    print(row["case"], {n: round(t, 1) for n, t in row["us"].items()}, {n: round(r, 2) for n, r in row.get("ratios", {}).items()}, row["refused"] or "", flush=True)


def table(content: dict) -> str:
    lines = ["| batch x heads x rows x keys | cache | µs | TB/s | |", "|---|---|---:|---:|---|"]
    for row in content["rows"]:
        for name, us in row["us"].items():
            said_of = "; ".join(f"{key.removeprefix(name).lstrip(': ')} {r:.2f}".strip() for key, r in row["ratios"].items() if key == name or key.startswith(f"{name}: "))
            lines.append(f"| {row['case']} | {name} | {us:.1f} | {row['bytes'][name] / us / 1e6:.2f} | {said_of} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"caches": caches, "latent": latent, "append": append}
    parser.add_argument("--only", choices=kinds, help="one kind alone; nothing is written")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="print what was written earlier")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(arguments.table.read_text())))
        return
    try:
        import torch
    except ImportError as error:
        sys.exit(f"serving_caches.py needs PyTorch: {error}")
    if not torch.cuda.is_available():
        sys.exit("serving_caches.py: PyTorch sees no CUDA device here")
    torch.manual_seed(1)
    space = torch.empty(512 << 20, device="cuda", dtype=torch.uint8)
    rows = [row for name, kind in kinds.items() if arguments.only in (None, name) for row in kind(torch, space)]
    if arguments.only:
        return
    environment = measure.environment("cuda")
    content = {"environment": environment, "rows": rows}
    measure.write_json(arguments.results / measure.device_folder("cuda", environment) / "serving-caches.json", content)
    print(table(content))


if __name__ == "__main__":
    main()
