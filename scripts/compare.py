#!/usr/bin/env python3
"""Tessera beside every other attention on this machine: same process, same tensors, taking turns.

    scripts/compare.py                                   # the device's case groups
    scripts/compare.py --group costs --name costs        # what options cost, beside FlexAttention
    scripts/compare.py --case cpu_prefill_2k --sweep cpu_prefill_2k:256,512,1024,2048
    scripts/compare.py --plot-only bench/results/<device>/compare.json

Every contender is checked against a float64 oracle before it is timed, and what fails is not timed. Prints
ratios (above 1: Tessera is faster), writes bench/results/<device>/compare.json (--name), and draws latency and TFLOP/s
by sequence length and a roofline as PNG and SVG beside it. Cases that Tessera cannot compute on the device are
listed with the library's reason, and the peers are timed all the same.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import bench_cases
import bench_measure as measure
import bench_options
import bench_peers
import numpy as np

GROUPS = {"cuda": ["mission", "canonical", "prefill", "decode", "costs"], "cpu": ["mission", "cpu"]}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", default=[], help="a named case; may be repeated")
    parser.add_argument("--group", action="append", default=[], help="a whole group; may be repeated")
    parser.add_argument("--sweep", action="append", default=[], help="CASE:256,512,...: a case at other lengths")
    parser.add_argument("--contender", action="append", default=[],
                        help='only this one, as the output names it ("torch cudnn"); may be repeated')  # fmt: skip
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda if PyTorch sees one")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads for all contenders that can be told")
    parser.add_argument("--seconds", type=float, default=1.0, help="per contender and case, on a CPU")
    parser.add_argument("--fa3", metavar="LIBRARY", help="FlashAttention-3's torch operators (its package's _C.so)")
    parser.add_argument("--tessera", help="the program `tessera` to read the case list from")
    parser.add_argument("--results", type=pathlib.Path, default=bench_cases.ROOT / "bench" / "results")
    parser.add_argument("--name", default="compare", help="of the file: NAME.json; costs.json is where the options' table is read first")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--plot-only", type=pathlib.Path, help="draw the charts of a file written earlier")
    return parser.parse_args()


def pick_device(wanted: str | None) -> tuple[str, object | None]:
    """(device, torch or None). Without PyTorch the tensors are NumPy's, and the device is the CPU."""
    try:
        import torch
    except ImportError as error:
        if wanted == "cuda":
            sys.exit(f"compare --device cuda needs PyTorch: {error}")
        print(f"without PyTorch ({error}): Tessera and JAX only")
        return "cpu", None
    if wanted == "cuda" and not torch.cuda.is_available():
        sys.exit("compare: PyTorch sees no CUDA device here")
    return wanted or ("cuda" if torch.cuda.is_available() else "cpu"), torch


def measure_case(case, device: str, torch, seconds: float, contenders: list[str]) -> list[dict]:
    """One row per contender: checked, then timed, or the reason why not."""
    q, k, v = bench_cases.tensors(case, device) if torch else bench_cases.arrays(case)
    rows, runnable = [], {}
    options = bench_options.make(case)
    truth = measure.oracle_rows(case, q, k, v, options)
    if torch:
        options = options.to_torch(device)
    for peer in bench_peers.peers(case, options, q, k, v, device, contenders):
        row = {"case": case.name, "group": case.group, "contender": peer.name, "flops": case.flops, "bytes": case.bytes,
               "batch": case.batch, "heads": case.heads, "kv_heads": case.kv_heads, "queries": case.queries, "keys": case.keys, "dim": case.dim, "dtype": case.dtype,
               "causal": case.causal or "", "options": " ".join(case.options), "detail": peer.why}  # fmt: skip
        rows.append(row)
        if peer.call is None:
            continue
        row["check"] = measure.check(case, truth, peer.call())
        # Ours must meet its own, tighter bound; others round where they please, within the common gate.
        passed = row["check"]["passes_1e-2"] and (not peer.name.startswith("tessera") or row["check"]["passes_bound"])
        if passed:
            runnable[peer.name] = (peer, row)
        else:
            row["detail"] = f"wrong: error {row['check']['max_error']:.2g}, not timed"
    if device == "cuda":
        time_on_gpu(runnable, torch)
    else:
        time_on_cpu(runnable, seconds)
    return rows


def time_on_cpu(runnable: dict, seconds: float) -> None:
    samples = measure.interleaved({n: p.call for n, (p, _) in runnable.items()}, seconds) if runnable else {}
    ours = samples.get("tessera")
    for name, (_, row) in runnable.items():
        row["single"] = measure.stats(samples[name])
        if ours:
            row["ratio"] = float(np.median(np.asarray(samples[name]) / np.asarray(ours)))


def time_on_gpu(runnable: dict, torch) -> None:
    """Three rounds in turn per contender; each keeps its median round, so that clocks drift over all alike."""
    graphs, singles = {}, {}
    for _ in range(3):
        for name, (peer, row) in list(runnable.items()):
            synchronize = peer.synchronize or torch.cuda.synchronize
            try:
                singles.setdefault(name, []).extend(measure.single_samples(peer.call, synchronize, 70, 1.0))
            except RuntimeError as error:  # it ran once, but not beside the others: out of memory, mostly
                row["detail"] = f"not timed: {str(error).splitlines()[0]}"
                del runnable[name]
                graphs.pop(name, None)
                continue
            if not peer.capturable:
                continue
            try:
                graphs.setdefault(name, []).extend(measure.graph_samples(peer.call, 0.4))
            except RuntimeError as error:
                row["graph_why_not"] = str(error).split("\n")[0]
    for name, (_, row) in runnable.items():
        row["single"] = measure.stats(singles[name])
        if name in graphs:
            row["graph"] = measure.stats(graphs[name])
    ours = runnable.get("tessera")
    if ours:
        for name, (_, row) in runnable.items():
            kind = "graph" if "graph" in row and "graph" in ours[1] else "single"
            row["ratio"] = row[kind]["p50_us"] / ours[1][kind]["p50_us"]


def time_of(row: dict) -> float | None:
    found = row.get("graph") or row.get("single")
    return found["p50_us"] if found else None


def print_rows(case, rows: list[dict]) -> None:
    print(f"\n{case.name}  ({case.flops * 1e-9:.3g} GFLOP, {case.bytes * 1e-6:.3g} MB)")
    for row in rows:
        time_us = time_of(row)
        if time_us is None:
            print(f"  {row['contender']:<18} -            {row['detail'][:90]}", flush=True)
            continue
        ratio = f"{row['ratio']:6.2f}x" if "ratio" in row else f"{'':>7}"
        single = f"(single {row['single']['p50_us']:.1f})" if "graph" in row else ""
        print(
            f"  {row['contender']:<18} {time_us:12.1f} µs {ratio}  {row['flops'] / time_us * 1e-3:9.1f} GFLOP/s  "
            f"error {row['check']['max_error']:.1e}  {single} {row['detail']}",
            flush=True,
        )


def print_summary(rows: list[dict]) -> None:
    by_peer: dict[str, list[float]] = {}
    for row in rows:
        if "ratio" in row and row["contender"] != "tessera":
            by_peer.setdefault(row["contender"], []).append(row["ratio"])
    if not by_peer:
        return
    print("\nTessera against each peer (peer's time / ours; above 1 we are faster):")
    for name, ratios in by_peer.items():
        print(f"  {name:<18} geometric mean {np.exp(np.mean(np.log(ratios))):5.2f}x, worst {min(ratios):5.2f}x, "
              f"best {max(ratios):5.2f}x over {len(ratios)} cases")  # fmt: skip


def draw(path: pathlib.Path) -> None:
    try:
        import bench_plots
    except ImportError as error:
        print(f"no charts: {error}")
        return
    bench_plots.draw(json.loads(path.read_text()), path.parent)


def main() -> int:
    options = parse_arguments()
    if options.plot_only:
        draw(options.plot_only)
        return 0
    import tessera

    device, torch = pick_device(options.device)
    if torch:
        torch.set_grad_enabled(False)
        if options.fa3:
            bench_peers.load_fa3(options.fa3)
        if options.threads:
            torch.set_num_threads(options.threads)
    tessera.set_threads(options.threads)
    known = bench_cases.load(bench_cases.find_command(options.tessera))
    groups = options.group or ([] if options.case or options.sweep else GROUPS[device])
    cases = bench_cases.choose(known, options.case, groups, options.sweep)
    environment, limits = measure.environment(device), measure.ceilings(device)
    print(f"{environment.get('gpu', environment['cpu'])}: {limits['flops'] * 1e-12:.3g} TFLOP/s, "
          f"{limits['bytes'] * 1e-9:.3g} GB/s measured")  # fmt: skip
    rows, wrong = [], []
    for case in cases:
        measured = measure_case(case, device, torch, options.seconds, options.contender)
        print_rows(case, measured)
        rows += measured
        wrong += [case.name for r in measured if r["contender"].startswith("tessera") and r["detail"].startswith("wrong")]
        if device == "cuda":
            torch.cuda.empty_cache()
    print_summary(rows)
    environment |= {"threads": options.threads or environment["cores"]}
    path = options.results / measure.device_folder(device, environment) / f"{options.name}.json"
    measure.write_json(path, {"environment": environment, "ceilings": limits, "device": device, "rows": rows})
    if not options.no_plots:
        draw(path)
    if wrong:
        print(f"Tessera is WRONG on: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
