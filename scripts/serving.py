#!/usr/bin/env python3
"""Steps of a serving engine, with cold caches: decode beside the peers of this machine, and batches of unlike entries.

    scripts/serving.py                          # the table: writes bench/results/<gpu>/serving.json
    scripts/serving.py --fa3 _C.so              # with FlashAttention-3's torch operators, paged and not
    scripts/serving.py --sweep                  # every length and batch: writes bench/results/<gpu>/serving-sweep.json
    scripts/serving.py --mixed                  # unlike entries in one call: writes bench/results/<gpu>/serving-mixed.json
    scripts/serving.py --table FILE             # what the table or --mixed wrote earlier, as Markdown

One process; contenders take turns on the same values. K and V rotate through more memory than L2 holds, in a CUDA graph
of many calls. Every contender is held to a float64 reference before it is timed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import random
import statistics
import sys

import bench_measure as measure

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIM = 128
COLD_BYTES = 320 << 20  # more than five times the L2 of an H200
READ_TB_S = 4.47  # of an H200: what reading alone reaches (docs/numbers.md)
# batch, heads, KV heads, rows, keys
CASES = [(1, 32, 8, 1, 1024), (1, 32, 8, 1, 4096), (1, 32, 8, 1, 8192), (1, 32, 8, 1, 32768), (1, 8, 1, 1, 32768), (4, 64, 8, 1, 8192),
         (8, 32, 8, 1, 4096), (64, 32, 8, 1, 1024), (128, 32, 8, 1, 2048), (32, 32, 8, 1, 4096), (8, 32, 8, 1, 16384), (8, 32, 8, 2, 16384),
         (8, 32, 8, 4, 16384), (8, 32, 8, 8, 16384), (8, 32, 8, 16, 16384), (1, 32, 8, 8, 32768)]  # fmt: skip


def exact(torch, q, k, v):
    """Of one head and one sequence, in float64: causal, the last row sees all keys."""
    (rows, _), (keys, _) = q.shape, k.shape
    s = q.double() @ k.double().T / DIM**0.5
    hidden = torch.arange(keys, device="cuda")[None] > torch.arange(rows, device="cuda")[:, None] + keys - rows
    return s.masked_fill(hidden, float("-inf")).softmax(-1) @ v.double()


def name_of(case) -> str:
    batch, heads, kv_heads, rows, keys = case
    return f"{batch} x {heads}/{kv_heads} x {rows} x {keys // 1024}k"


class Batch:
    """One case: Q, and K and V [batch, kv_heads, keys, DIM] in as many copies as it takes to leave L2."""

    def __init__(self, torch, case):
        self.torch, self.case = torch, case
        batch, heads, kv_heads, rows, keys = case
        self.bytes = batch * kv_heads * keys * DIM * 2 * 2
        copies = max(2, -(-COLD_BYTES // self.bytes))
        draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        self.q = draw(batch, heads, rows, DIM)
        self.kv = [(draw(batch, kv_heads, keys, DIM), draw(batch, kv_heads, keys, DIM)) for _ in range(copies)]
        self.lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
        self.offsets = torch.arange(0, (batch + 1) * rows, rows, device="cuda", dtype=torch.int32)

    def pages(self, page: int, rows_first: bool = False):
        """[(keys, values, table)]: the same values in shuffled pages, [pages, kv_heads, page, DIM] or with rows before heads."""
        torch, (batch, _, kv_heads, _, keys) = self.torch, self.case
        per = keys // page
        made = []
        for k, v in self.kv:
            order = torch.randperm(batch * per, device="cuda")
            parts = []
            for t in (k, v):
                by_page = t.view(batch, kv_heads, per, page, DIM).transpose(1, 2).reshape(batch * per, kv_heads, page, DIM)
                pool = torch.empty_like(by_page)
                pool[order] = by_page
                parts.append(pool.transpose(1, 2).contiguous() if rows_first else pool)
            made.append((*parts, order.view(batch, per).int()))
        return made

    def reference(self):
        """Of the first copy's first and last head."""
        batch, heads, kv_heads, _, _ = self.case
        k, v = self.kv[0]
        picked = ((0, 0), (batch - 1, heads - 1))
        return [(b, h, exact(self.torch, self.q[b, h], k[b, h * kv_heads // heads], v[b, h * kv_heads // heads])) for b, h in picked]


def our_contenders(batch: Batch) -> dict:
    import tessera

    b, heads, _, rows, _ = batch.case
    space = batch.torch.empty(256 << 20, device="cuda", dtype=batch.torch.uint8)
    causal = {} if rows == 1 else {"causal": "bottom-right"}
    attend = lambda *a, **k: tessera.attend(*a, workspace=space, **causal, **k)  # noqa: E731
    ragged_q = batch.q.transpose(1, 2).reshape(1, b * rows, heads, DIM).transpose(1, 2)
    back = lambda out: out.transpose(1, 2).reshape(b, rows, heads, DIM).transpose(1, 2)  # noqa: E731
    made = {"dense": [lambda k=k, v=v: attend(batch.q, k, v) for k, v in batch.kv]}
    for page in (16, 64):
        pools = batch.pages(page)
        made[f"pages of {page}"] = [lambda k=k, v=v, t=t: attend(batch.q, k, v, page_table=t, key_lengths=batch.lengths) for k, v, t in pools]
        if page == 16:
            made["ragged"] = [
                lambda k=k, v=v, t=t: back(attend(ragged_q, k, v, page_table=t, key_lengths=batch.lengths, query_offsets=batch.offsets))
                for k, v, t in pools
            ]
    return made


def peers(batch: Batch, has_fa3: bool) -> dict:
    torch, rows = batch.torch, batch.case[3]
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    def sdpa(backend, k, v):
        bias = None if rows == 1 else causal_lower_right(rows, batch.case[4])
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(batch.q, k, v, attn_mask=bias, enable_gqa=True)

    made = {
        "cuDNN": [lambda k=k, v=v: sdpa(SDPBackend.CUDNN_ATTENTION, k, v) for k, v in batch.kv],
        "torch flash": [lambda k=k, v=v: sdpa(SDPBackend.FLASH_ATTENTION, k, v) for k, v in batch.kv],
    }
    if has_fa3:
        fwd, q = torch.ops.flash_attn_3.fwd, batch.q.transpose(1, 2).contiguous()
        run = lambda k, v, **more: fwd(q, k, v, is_causal=True, num_splits=0, **more)[0].transpose(1, 2)  # noqa: E731
        dense = [tuple(t.transpose(1, 2).contiguous() for t in kv) for kv in batch.kv]
        made["FA3"] = [lambda k=k, v=v: run(k, v) for k, v in dense]
        for page in (16, 64):
            pools = batch.pages(page, rows_first=True)
            made[f"FA3 pages of {page}"] = [lambda k=k, v=v, t=t: run(k, v, page_table=t, seqused_k=batch.lengths) for k, v, t in pools]
    return made


def captured(torch, calls):
    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    graph.replay()
    return graph


def time_of(torch, graph, calls: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def measure_case(torch, case, has_fa3: bool) -> dict:
    batch = Batch(torch, case)
    truth = batch.reference()
    graphs, refused = {}, {}
    for name, calls in {**our_contenders(batch), **peers(batch, has_fa3)}.items():
        try:
            out = calls[0]()
            error = max(float((out[b, h].double() - right).abs().max()) for b, h, right in truth)
            if not error < 1e-2:
                refused[name] = f"off by {error:.3g}"
                continue
            calls = calls * max(1, 24 // len(calls))
            graphs[name] = captured(torch, calls), len(calls)
        except Exception as why:  # of a peer, in its own way
            refused[name] = str(why).strip().split("\n")[0][:200]
    times = {name: [] for name in graphs}
    for _ in range(9):
        for name, (graph, calls) in graphs.items():
            times[name].append(time_of(torch, graph, calls))
    us = {name: statistics.median(t) for name, t in times.items()}
    return {"case": name_of(case), "bytes": batch.bytes, "floor_us": batch.bytes / READ_TB_S / 1e6, "us": us, "refused": refused}


def worst_spike(points: list[tuple[int, float]], reach: int = 8) -> dict:
    """The point that takes longest beside the median of those around it."""
    found = {"ratio": 0.0}
    for i in range(len(points)):
        around = [t for _, t in points[max(0, i - reach) : i + reach + 1]]
        ratio = points[i][1] / statistics.median(around)
        if ratio > found["ratio"]:
            found = {"ratio": ratio, "at": points[i][0], "us": points[i][1]}
    return found


def sweep(torch) -> list[dict]:
    """Lengths 1 ... 8k for three batches, in a captured graph that is told others; batches 1 ... 128 for three lengths."""
    import tessera

    space = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)

    def graph_for(size: int, keys: int):
        batch = Batch(torch, (size, 32, 8, 1, keys))
        calls = [lambda k=k, v=v, t=t: tessera.attend(batch.q, k, v, page_table=t, key_lengths=batch.lengths, workspace=space) for k, v, t in batch.pages(64)]
        calls = calls * max(1, 8 // len(calls))
        return batch, captured(torch, calls), len(calls)

    rows = []
    for size, step in ((1, 1), (8, 1), (64, 8)):
        batch, graph, calls = graph_for(size, 8192)
        points = []
        for length in range(1, 8193, step):
            batch.lengths.fill_(length)
            points.append((length, min(time_of(torch, graph, calls) for _ in range(3))))
        rows.append({"what": f"batch {size}, every length to 8k" + (f" in steps of {step}" if step > 1 else ""), "worst": worst_spike(points), "points": points[:: max(1, len(points) // 256)]})
        print(rows[-1]["what"], rows[-1]["worst"], flush=True)
        del batch, graph
    for keys in (1024, 4096, 8192):
        points = []
        for size in range(1, 129):
            batch, graph, calls = graph_for(size, keys)
            points.append((size, min(time_of(torch, graph, calls) for _ in range(3))))
            del batch, graph
        rows.append({"what": f"{keys // 1024}k keys, every batch to 128", "worst": worst_spike(points, 2), "points": points})
        print(rows[-1]["what"], rows[-1]["worst"], flush=True)
    return rows


class Entries:
    """Sequences [(rows, keys)] one behind the other: Q, K and V [1, heads, all rows or keys, DIM], K and V in copies as Batch has them."""

    def __init__(self, torch, heads: int, kv_heads: int, entries: list[tuple[int, int]], space):
        self.torch, self.entries, self.space = torch, entries, space
        rows, keys = zip(*entries)
        self.bytes = kv_heads * sum(keys) * DIM * 2 * 2
        draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        whole = lambda numbers: torch.tensor(numbers, device="cuda", dtype=torch.int32)  # noqa: E731
        self.q = draw(1, heads, sum(rows), DIM)
        copies = max(2, -(-COLD_BYTES // self.bytes))
        self.kv = [(draw(1, kv_heads, sum(keys), DIM), draw(1, kv_heads, sum(keys), DIM)) for _ in range(copies)]
        self.lengths = whole(keys)
        self.rows_at, self.keys_at = whole([0, *itertools.accumulate(rows)]), whole([0, *itertools.accumulate(keys)])

    def attend(self, *qkv, **more):
        import tessera

        return tessera.attend(*qkv, causal="bottom-right", workspace=self.space, **more)

    def dense(self) -> list:
        """Calls on [batch, heads, rows, DIM]; all entries are of one length."""
        apart = lambda t: t.view(t.shape[1], len(self.entries), -1, DIM).transpose(0, 1).contiguous()  # noqa: E731
        q = apart(self.q)
        return [lambda k=apart(k), v=apart(v): self.attend(q, k, v) for k, v in self.kv]

    def packed(self, rows_first: bool) -> list:
        """Ragged calls on keys one behind the other; in memory heads come before rows, as in the dense call, or behind them."""
        laid = lambda t: t.transpose(1, 2).contiguous().transpose(1, 2) if rows_first else t  # noqa: E731
        q, where = laid(self.q), {"query_offsets": self.rows_at, "key_offsets": self.keys_at}
        return [lambda k=laid(k), v=laid(v): self.attend(q, k, v, **where) for k, v in self.kv]

    def paged(self, page: int = 64) -> list:
        """Ragged calls on the same values in shuffled pages; -1 in the table past an entry's last page."""
        torch, where = self.torch, {"query_offsets": self.rows_at, "key_lengths": self.lengths}
        calls = []
        for kv in self.kv:
            order = torch.randperm(sum(keys for _, keys in self.entries) // page, device="cuda")
            table = torch.full((len(self.entries), max(keys for _, keys in self.entries) // page), -1, device="cuda", dtype=torch.int32)
            for row, mine in zip(table, order.split([keys // page for _, keys in self.entries])):
                row[: len(mine)] = mine
            pools = []
            for t in kv:
                by_page = t.view(t.shape[1], len(order), page, DIM).transpose(0, 1).contiguous()
                pools.append(torch.empty_like(by_page))
                pools[-1][order] = by_page
            calls.append(lambda k=pools[0], v=pools[1], t=table: self.attend(self.q, k, v, page_table=t, **where))
        return calls

    def error(self, out) -> float:
        """The largest of the first and last entry's first and last head, as a part of the largest value in its row."""
        (heads, kv_heads), (k, v) = (self.q.shape[1], self.kv[0][0].shape[1]), self.kv[0]
        out = out.transpose(0, 1).reshape(self.q.shape)  # of a dense call, too
        parts = [(slice(*r), slice(*n)) for r, n in zip(itertools.pairwise(self.rows_at.tolist()), itertools.pairwise(self.keys_at.tolist()))]
        worst = []
        for (rows, keys), h in itertools.product((parts[0], parts[-1]), (0, heads - 1)):
            kv = h * kv_heads // heads
            right = exact(self.torch, self.q[0, h, rows], k[0, kv, keys], v[0, kv, keys])
            worst.append(((out[0, h, rows].double() - right).abs().amax(-1) / right.abs().amax(-1)).max())
        return float(self.torch.stack(worst).max())  # NaN stays NaN


def measure_mixed(torch, case: str, contenders: dict) -> dict:
    """`contenders`: {name: (entries, calls)}; they take turns in an order that is drawn anew for each round."""
    graphs, errors = {}, {}
    for name, (entries, calls) in contenders.items():
        errors[name] = entries.error(calls[0]())
        if not errors[name] < 1e-2:
            sys.exit(f"serving.py: {case}, {name}: off by {errors[name]:.3g} of a row's largest value; less than 0.01 is accepted")
        calls = calls * max(1, 24 // len(calls))
        graphs[name] = captured(torch, calls), len(calls)
    rounds = {name: [] for name in graphs}
    for _ in range(21):
        for name in random.sample(list(graphs), len(graphs)):
            rounds[name].append(time_of(torch, *graphs[name]))
    us = {name: statistics.median(times) for name, times in rounds.items()}
    return {"case": case, "us": us, "error": errors, "rounds_us": rounds}


def mixed(torch) -> list[dict]:
    """One long sequence among short ones; a chunk of a prompt beside decode steps; prompts beside dense calls of equal lengths."""
    space = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)
    made = lambda heads, kv_heads, entries: Entries(torch, heads, kv_heads, entries, space)  # noqa: E731
    rows = []

    def finished(row: dict, ratios: dict, to: str) -> None:
        rows.append({**row, "ratios": ratios, "to": to})
        print(row["case"], {n: round(t, 1) for n, t in row["us"].items()}, {n: round(r, 3) for n, r in ratios.items()}, flush=True)

    skew = made(32, 8, [(1, 131072)] + 63 * [(1, 1024)])
    row = measure_mixed(torch, "32/8 heads, 1 row each: 1 x 128k keys and 63 x 1k", {"ragged, pages of 64": (skew, skew.paged())})
    row |= {"bytes": skew.bytes, "floor_us": skew.bytes / READ_TB_S / 1e6}
    finished(row, {n: t / row["floor_us"] for n, t in row["us"].items()}, f"reading, {row['floor_us']:.1f} µs")
    del skew

    chunk, steps = [(2048, 2048)], 63 * [(1, 4096)]
    # Each has K and V of its own: a chunk's are small, and it takes more copies of them than of the others to leave L2.
    parts = {"one call": chunk + steps, "the chunk alone": chunk, "the steps alone": steps}
    contenders = {name: (e := made(32, 8, entries), e.paged()) for name, entries in parts.items()}
    row = measure_mixed(torch, "32/8 heads, pages of 64: a chunk of 2k rows and keys, and 63 x 1 row x 4k keys", contenders)
    both = row["us"]["the chunk alone"] + row["us"]["the steps alone"]
    finished(row, {"one call": row["us"]["one call"] / both}, f"both alone, {both:.1f} µs")
    del contenders

    for batch, length in ((4, 8192), (1, 16384), (8, 2048), (4, 4096)):
        e = made(16, 16, batch * [(length, length)])
        contenders = {"dense": e.dense(), "packed": e.packed(False), "packed, rows before heads": e.packed(True), "pages of 64": e.paged()}
        row = measure_mixed(torch, f"16/16 heads, prompts, {batch} x {length // 1024}k", {name: (e, calls) for name, calls in contenders.items()})
        finished(row, {n: t / row["us"]["dense"] for n, t in row["us"].items() if n != "dense"}, "dense")
        del e, contenders
    return rows


def mixed_table(content: dict) -> str:
    lines = ["| batch | call | µs | ratio | to |", "|---|---|---:|---:|---|"]
    for row in content["rows"]:
        for name, us in row["us"].items():
            ratio, to = (f"{row['ratios'][name]:.3f}", row["to"]) if name in row["ratios"] else ("", "")
            lines.append(f"| {row['case']} | {name} | {us:.1f} | {ratio} | {to} |")
    return "\n".join(lines)


def table(content: dict) -> str:
    names = ["dense", "pages of 16", "pages of 64", "ragged", "cuDNN", "torch flash", "FA3", "FA3 pages of 16", "FA3 pages of 64"]
    names = [n for n in names if any(n in row["us"] for row in content["rows"])]
    lines = ["| batch x heads x rows x keys | floor | " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) + 1)]
    for row in content["rows"]:
        cells = [f"{row['us'][n]:.1f}" if n in row["us"] else "" for n in names]
        lines.append(f"| {row['case']} | {row['floor_us']:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fa3", metavar="LIBRARY", help="FlashAttention-3's torch operators (its package's _C.so)")
    parser.add_argument("--sweep", action="store_true", help="every length and batch instead of the table")
    parser.add_argument("--mixed", action="store_true", help="unlike entries in one call instead of the table")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="print what was written earlier")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    arguments = parser.parse_args()
    if arguments.table:
        content = json.loads(arguments.table.read_text())
        print((mixed_table if "ratios" in content["rows"][0] else table)(content))
        return
    try:
        import torch
    except ImportError as error:
        sys.exit(f"serving.py needs PyTorch: {error}")
    if not torch.cuda.is_available():
        sys.exit("serving.py: PyTorch sees no CUDA device here")
    if arguments.fa3:
        import bench_peers

        bench_peers.load_fa3(arguments.fa3)
    torch.manual_seed(1)
    environment = measure.environment("cuda")
    folder = arguments.results / measure.device_folder("cuda", environment)
    content: dict = {"environment": environment}
    if arguments.sweep:
        content["rows"] = sweep(torch)
        measure.write_json(folder / "serving-sweep.json", content)
        return
    if arguments.mixed:
        content["rows"] = mixed(torch)
        measure.write_json(folder / "serving-mixed.json", content)
        print(mixed_table(content))
        return
    content["rows"] = []
    for case in CASES:
        content["rows"].append(measure_case(torch, case, bool(arguments.fa3)))
        print(content["rows"][-1]["case"], {n: round(t, 1) for n, t in content["rows"][-1]["us"].items()}, content["rows"][-1]["refused"], flush=True)
    measure.write_json(folder / "serving.json", content)
    print(table(content))


if __name__ == "__main__":
    main()
