"""Timing, checking and describing the machine, for baseline.py and compare.py.

GPU: p50 over CUDA-graph replays (what the kernel takes) and p50 of single calls with a synchronisation each
(what a caller feels). CPU: contenders take turns, round by round, and ratios are medians over rounds, so that
a busy machine disturbs all of them alike.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import time

import bench_options
import numpy as np

CALLS_PER_GRAPH = 20


def stats(samples_us) -> dict[str, float]:
    s = np.asarray(samples_us, np.float64)
    return {
        "p50_us": float(np.percentile(s, 50)),
        "p90_us": float(np.percentile(s, 90)),
        "p99_us": float(np.percentile(s, 99)),
        "mean_us": float(s.mean()),
        "std_us": float(s.std()),
        "samples": len(s),
    }


# CPU


def interleaved(calls: dict, seconds: float) -> dict[str, list[float]]:
    """Microseconds per call of every contender, one sample per round; contenders take turns."""
    repeats = {}
    for name, call in calls.items():
        call()
        began = time.perf_counter()
        call()
        once = max(time.perf_counter() - began, 1e-7)
        repeats[name] = max(1, min(2000, int(0.01 / once)))  # a sample lasts 10 ms or one call
    samples = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds * len(calls)
    rounds = 0
    while rounds < 5 or (time.perf_counter() < deadline and rounds < 200):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            samples[name].append((time.perf_counter() - began) / repeats[name] * 1e6)
        rounds += 1
    return samples


# GPU


def graph_samples(call, seconds: float = 1.0) -> list[float]:
    """Microseconds per call inside a CUDA graph of up to 20 calls; raises if the call cannot be captured."""
    import torch

    once = min(single_samples(call, torch.cuda.synchronize, 3, 0.0)) * 1e-6
    calls = max(1, min(CALLS_PER_GRAPH, int(0.05 / once)))  # slow calls need no graph to hide their launch
    replays = max(5, min(50, int(seconds / (calls * once))))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    for _ in range(3):
        graph.replay()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(replays)]
    torch.cuda.synchronize()
    for begin, end in events:
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e3 / calls for begin, end in events]


def single_samples(call, synchronize, count: int = 200, seconds: float = 2.0) -> list[float]:
    """Microseconds from call to result, one call at a time."""
    for _ in range(2):
        call()
    synchronize()
    samples = []
    deadline = time.perf_counter() + seconds
    while len(samples) < min(count, 10) or (len(samples) < count and time.perf_counter() < deadline):
        began = time.perf_counter()
        call()
        synchronize()
        samples.append((time.perf_counter() - began) * 1e6)
    return samples


# Checking


def _some_rows(count: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def _to_float64(array) -> np.ndarray:
    if hasattr(array, "detach"):
        return array.detach().double().cpu().numpy()
    return np.asarray(array).astype(np.float64)


def oracle_rows(case, q, k, v, options=None):
    """((b, h, rows), float64 truth, float32 yardstick) for a few heads and rows: what every contender is held to.

    `options` as bench_options.make makes them, with NumPy arrays; left out, those of the case.
    """
    options = options or bench_options.make(case)
    heads = [(0, 0), (case.batch - 1, case.heads - 1), (case.batch // 2, case.heads // 2)]
    rows = _some_rows(case.queries, 64)
    group = case.heads // case.kv_heads
    found = []
    for b, h in dict.fromkeys(heads):
        parts = [_to_float64(q[b, h])[rows], _to_float64(k[b, h // group]), _to_float64(v[b, h // group])]
        results = []
        for number in (np.float64, np.float32):
            x, y, z = (t.astype(number) for t in parts)
            s = bench_options.finished_scores(case, options, x @ y.T, b, h, rows)
            sink = number(-np.inf if options.sinks is None else options.sinks[h])
            highest = np.maximum(s.max(axis=1, keepdims=True), sink)
            highest = np.where(highest == -np.inf, number(0), highest)  # a row that sees nothing gives 0
            e = np.exp(s - highest)
            total = e.sum(axis=1, keepdims=True) + np.exp(sink - highest)
            results.append(e / np.where(total == 0, number(1), total) @ z)
        found.append(((b, h, rows), *results))
    return found


def check(case, truth, output) -> dict:
    """The largest error against the oracle, and whether it passes atol = rtol = 1e-2 and the derived bound."""
    digits = {"float32": 23, "float16": 10, "bfloat16": 7}[case.dtype]
    worst, ratio, gate = 0.0, 0.0, True
    for (b, h, rows), exact, plain in truth:
        got = _to_float64(output[b, h])[rows]
        error = np.abs(got - exact)
        step = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-14))) - digits)
        plain_error = np.abs(_rounded(plain, case.dtype) - exact).max()
        worst = max(worst, float(error.max()))
        ratio = max(ratio, float((error / (2 * plain_error + step)).max()))
        gate &= bool(np.all(np.isfinite(got)) and np.all(error <= 1e-2 + 1e-2 * np.abs(exact)))
    return {"max_error": worst, "of_derived_bound": ratio, "passes_1e-2": gate, "passes_bound": ratio <= 1.0}


def _rounded(values, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    return values.astype(dtype).astype(np.float64)


# The machine


def _first_line(*command) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip().split("\n")[0]
    return ""


def cpu_name() -> str:
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
        if found:
            return found[1]
    return platform.machine()


def environment(device: str) -> dict:
    """Everything that a number needs beside it."""
    versions = {"python": platform.python_version()}
    for name in ("tessera", "torch", "jax", "numpy", "cupy", "triton", "flash_attn", "xformers"):
        with contextlib.suppress(Exception):
            versions[name] = __import__(name).__version__
    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        # TESSERA_COMMIT: for a copy of the tree without its history.
        "commit": os.environ.get("TESSERA_COMMIT") or _first_line("git", "describe", "--always", "--dirty", "--abbrev=12"),
        # Without the folders of this machine.
        "command": shlex.join(pathlib.Path(word).name if word.startswith("/") else word for word in sys.argv),
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions,
    }
    if device == "cuda":
        import torch

        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
        with contextlib.suppress(Exception):
            found["cudnn"] = torch.backends.cudnn.version()
        found["clocks"] = _first_line(
            "nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw", "--format=csv,noheader"
        )
    return found


def device_folder(device: str, environment_: dict) -> str:
    name = environment_["gpu"] if device == "cuda" else environment_["cpu"]
    name = re.sub(r"\(.*?\)|processor|cpu|@.*$", " ", name, flags=re.I)
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def ceilings(device: str) -> dict[str, float]:
    """This machine's own limits: a matrix product (FLOP/s) and reading memory (bytes/s).

    Attention reads far more than it writes. On a GPU a sum over 4 GB is read-only; on a CPU NumPy has nothing
    faster than a copy, which counts what is read and written.
    """
    if device == "cuda":
        import torch

        a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        big = torch.randn(1 << 30, device="cuda")
        product = min(graph_samples(lambda: torch.mm(a, b)))
        read = min(graph_samples(lambda: torch.sum(big)))
        return {"flops": 2 * 8192**3 / product * 1e6, "bytes": big.numel() * 4 / read * 1e6}
    a, b = (np.random.default_rng(i).standard_normal((2048, 2048), dtype=np.float32) for i in (0, 1))
    big = np.ones(1 << 26, np.float32)
    other = np.empty_like(big)
    timed = interleaved({"product": lambda: a @ b, "copy": lambda: np.copyto(other, big)}, 1.0)
    return {"flops": 2 * 2048**3 / min(timed["product"]) * 1e6, "bytes": 2 * big.nbytes / min(timed["copy"]) * 1e6}


def write_json(path: pathlib.Path, content: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {path}")
