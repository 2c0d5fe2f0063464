#!/usr/bin/env python3
"""Rung 0: what PyTorch takes. Times every attention backend of PyTorch, forced and warm, per case.

    scripts/baseline.py                      # the GPU's case groups if there is one, else the CPU's
    scripts/baseline.py --case mission512 --case canon_1 --device cuda

GPU: p50 over CUDA-graph replays and p50 of single calls. CPU: single calls, backends taking turns. Every
backend is checked against a float64 oracle first; one that fails is not a baseline. Prints the table and
writes bench/results/<device>/baseline.json with versions and clocks, and the ladder's targets scaled from it.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import bench_cases
import bench_measure as measure
import bench_options
import bench_torch

GROUPS = {"cuda": ["mission", "canonical", "prefill", "decode"], "cpu": ["mission", "cpu"]}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", default=[], help="a named case; may be repeated")
    parser.add_argument("--group", action="append", default=[], help="a whole group; may be repeated")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda if PyTorch sees one")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 means all")
    parser.add_argument("--seconds", type=float, default=1.0, help="per backend and case, on a CPU")
    parser.add_argument("--tessera", help="the program `tessera` to read the case list from")
    parser.add_argument("--results", type=pathlib.Path, default=bench_cases.ROOT / "bench" / "results")
    return parser.parse_args()


def time_on_gpu(peer) -> dict:
    import torch

    row = {"single": measure.stats(measure.single_samples(peer.call, torch.cuda.synchronize))}
    try:
        row["graph"] = measure.stats(measure.graph_samples(peer.call))
    except RuntimeError as error:
        row["graph_why_not"] = str(error).split("\n")[0]
    return row


def time_case(case, device: str, seconds: float) -> list[dict]:
    q, k, v = bench_cases.tensors(case, device)
    truth = None
    options = bench_options.make(case).to_torch(device)
    rows, calls = [], {}
    for name, backends in bench_torch.torch_backends(device).items():
        peer = bench_torch.torch_peer(name, backends, case, options, q, k, v)
        row = {"case": case.name, "backend": name, "flops": case.flops, "bytes": case.bytes}
        rows.append(row)
        if peer.call is None:
            row["why_not"] = peer.why
            continue
        truth = truth or measure.oracle_rows(case, q, k, v)
        row["check"] = measure.check(case, truth, peer.call())
        if not row["check"]["passes_1e-2"]:
            row["why_not"] = f"wrong: error {row['check']['max_error']:.2g} against the oracle"
        elif device == "cuda":
            row |= time_on_gpu(peer)
        else:
            calls[name] = peer.call
    samples = measure.interleaved(calls, seconds) if calls else {}
    for row in rows:
        if row["backend"] in samples:
            row["single"] = measure.stats(samples[row["backend"]])
    return rows


def time_of(row: dict) -> float | None:
    """The time that counts: inside a graph where there is one."""
    found = row.get("graph") or row.get("single")
    return found["p50_us"] if found else None


def targets(case, rows: list[dict], limits: dict) -> dict:
    """The ladder's goals for this case, from what was measured; one under the physical floor is impossible."""
    times = {row["backend"]: time_of(row) for row in rows if time_of(row)}
    if not times:
        return {}
    floor = max(case.flops / limits["flops"], case.bytes / limits["bytes"]) * 1e6
    default = times.get("torch default", min(times.values()))
    goals = {
        "scalar_hoped_us": [2 * default, 4 * default],  # rung 1: two to four times slower than the baseline
        "sm80_us": times.get("torch flash", default),  # ahead of FlashAttention-2
        "sm90_us": times.get("torch cudnn", min(times.values())),  # ahead of cuDNN
        "best_peer": min(times, key=times.get),
        "best_us": min(times.values()),
        "floor_us": floor,
    }
    goals["possible"] = goals["best_us"] > floor
    return goals


def print_rows(case, rows: list[dict], goals: dict) -> None:
    for row in rows:
        if time_of(row) is None:
            print(f"{case.name:<26} {row['backend']:<16} {'-':>10}  {row['why_not'][:70]}", flush=True)
            continue
        single, graph = row["single"]["p50_us"], row.get("graph", {}).get("p50_us")
        rate = case.flops / time_of(row) * 1e-3
        graph_text = f"{graph:10.1f}" if graph else f"{'-':>10}"
        print(
            f"{case.name:<26} {row['backend']:<16} {graph_text} {single:10.1f} µs {rate:9.1f} GFLOP/s  "
            f"error {row['check']['max_error']:.1e}",
            flush=True,
        )
    if goals:
        word = "" if goals["possible"] else "  under the floor: measured with a warm cache, or the ceiling is off"
        print(f"{'':<26} floor {goals['floor_us']:.2f} µs, best {goals['best_us']:.1f} µs{word}", flush=True)


def main() -> int:
    options = parse_arguments()
    try:
        import torch
    except ImportError as error:
        print(f"baseline needs PyTorch, which cannot be imported here: {error}")
        return 3
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        print("baseline: PyTorch sees no CUDA device here")
        return 3
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    known = bench_cases.load(bench_cases.find_command(options.tessera))
    chosen_groups = options.group or ([] if options.case else GROUPS[device])
    cases = bench_cases.choose(known, options.case, chosen_groups, [])
    environment, limits = measure.environment(device), measure.ceilings(device)
    print(f"{environment.get('gpu', environment['cpu'])}: {limits['flops'] * 1e-12:.3g} TFLOP/s, "
          f"{limits['bytes'] * 1e-9:.3g} GB/s measured; PyTorch {torch.__version__}")  # fmt: skip
    print(f"{'case':<26} {'backend':<16} {'graph':>10} {'single':>10}")
    rows, goals = [], {}
    for case in cases:
        try:
            measured = time_case(case, device, options.seconds)
        except torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else MemoryError as error:
            print(f"{case.name:<26} out of memory: {str(error)[:60]}")
            continue
        goals[case.name] = targets(case, measured, limits)
        print_rows(case, measured, goals[case.name])
        rows += measured
        if device == "cuda":
            torch.cuda.empty_cache()
    after = measure.environment(device).get("clocks")
    content = {"environment": environment | {"clocks_after": after, "threads": torch.get_num_threads()},
               "ceilings": limits, "rows": rows, "targets": goals}  # fmt: skip
    measure.write_json(options.results / measure.device_folder(device, environment) / "baseline.json", content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
