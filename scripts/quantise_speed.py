#!/usr/bin/env python3
"""What quantising takes on a GPU, beside reading and writing alone: prints a Markdown table, writes quantise.json.

    scripts/quantise_speed.py                   # writes bench/results/<gpu>/quantise.json

Tensors of PyTorch that rotate past L2; CUDA-graph replays, medians. "of copy": the time that a copy of as many bytes as
the input has and as the codes have takes, read once and written once, over ours.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys

import bench_measure as measure
import serving

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHAPES = [(1, 16, 16384, 128), (1, 8, 131072, 128), (2, 8, 512, 64)]
KINDS = {
    "tensor": {"scales": "tensor"},
    "head": {"scales": "head"},
    "block64": {"scales": "block64"},
    "channel, transposed": {"scales": "channel", "transpose": True},
    "head, smoothed": {"scales": "head", "smooth": True},
    "head, Hadamard": {"scales": "head", "hadamard": True},
    "int8, head": {"dtype": "int8", "scales": "head"},
}


def copies_of(torch, x):
    """Calls that read x and write half as many bytes."""
    to = torch.empty(x[0].numel() // 2, device="cuda", dtype=torch.bfloat16)
    return [lambda t=t: torch.add(t.view(2, -1)[0], t.view(2, -1)[1], out=to) for t in x]


def measured(torch, shape) -> dict:
    import tessera

    copies = max(2, -(-serving.COLD_BYTES // (2 * shape[0] * shape[1] * shape[2] * shape[3])))
    x = [torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for _ in range(min(copies, 48))]
    made = {"reading and writing alone": copies_of(torch, x)}
    made |= {name: [lambda t=t, o=options: tessera.quantise(t, **o) for t in x] for name, options in KINDS.items()}
    graphs = {name: (serving.captured(torch, calls * max(1, 12 // len(calls))), max(len(calls), 12 // len(calls) * len(calls))) for name, calls in made.items()}
    rounds = {name: [] for name in graphs}
    for _ in range(9):
        for name, graph in graphs.items():
            rounds[name].append(serving.time_of(torch, *graph))
    return {"shape": list(shape), "us": {name: statistics.median(times) for name, times in rounds.items()}}


def table(rows: list[dict]) -> str:
    lines = ["| bf16 tensor | codes | µs | of copy |", "|---|---|---:|---:|"]
    for row in rows:
        alone = row["us"]["reading and writing alone"]
        for name, us in row["us"].items():
            lines.append(f"| {' x '.join(map(str, row['shape']))} | {name} | {us:.1f} | {alone / us:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"quantise_speed.py needs PyTorch: {error}")
    if not torch.cuda.is_available():
        sys.exit("quantise_speed.py: PyTorch sees no CUDA device here")
    torch.manual_seed(1)
    rows = [measured(torch, shape) for shape in SHAPES]
    environment = measure.environment("cuda")
    content = {"environment": environment, "rows": rows}
    measure.write_json(arguments.results / measure.device_folder("cuda", environment) / "quantise.json", content)
    print(table(rows))


if __name__ == "__main__":
    main()
