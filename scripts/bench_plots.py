"""The charts of compare.py: latency and throughput by sequence length, and a roofline. PNG and SVG each."""

from __future__ import annotations

import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

OURS = "tessera"
# Ours stands out; the peers share a quiet palette that also tells apart in grey.
COLOURS = ["#7f7f7f", "#9ecae1", "#c7b299", "#a1d99b", "#bcbddc", "#fdae6b", "#969696", "#d9d9d9"]
MARKERS = "osD^vP*X"


def time_of(row: dict) -> float | None:
    found = row.get("graph") or row.get("single")
    return found["p50_us"] if found else None


def _style(names: list[str]) -> dict[str, dict]:
    styles = {OURS: {"color": "#c1272d", "marker": "o", "linewidth": 2.4, "zorder": 5}}
    for i, name in enumerate(n for n in names if n != OURS):
        styles[name] = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[(i + 1) % len(MARKERS)], "linewidth": 1.4}
    return styles


def _families(rows: list[dict], unit: float) -> dict[tuple, dict[str, list[tuple[int, float, float]]]]:
    """(dim, dtype, causal) -> contender -> [(length, µs, rate)], for square cases at two lengths or more."""
    families: dict[tuple, dict[str, dict[int, tuple]]] = {}
    for row in rows:
        if time_of(row) is None or row["queries"] != row["keys"]:
            continue
        key = (row["dim"], row["dtype"], bool(row["causal"]))
        point = (row["queries"], time_of(row), row["flops"] / time_of(row) / unit)
        families.setdefault(key, {}).setdefault(row["contender"], {})[row["queries"]] = point
    sorted_families = {k: {n: sorted(p.values()) for n, p in f.items()} for k, f in families.items()}
    return {k: f for k, f in sorted_families.items() if max(len(p) for p in f.values()) > 1}


def _save(figure, folder: pathlib.Path, name: str) -> None:
    for ending in ("png", "svg"):
        path = folder / f"{name}.{ending}"
        # No date inside, so that drawing the same numbers gives the same file.
        metadata = {"Date": None} if ending == "svg" else {}
        figure.savefig(path, dpi=150, bbox_inches="tight", metadata=metadata)
        print(f"wrote {path}")
    plt.close(figure)


def _title(environment: dict) -> str:
    versions = environment["versions"]
    known = ", ".join(f"{n} {versions[n]}" for n in ("tessera", "torch", "jax") if n in versions)
    where = environment.get("gpu") or f"{environment['cpu']}, {environment.get('threads', '?')} threads"
    return f"{where} · {known} · {environment['date'][:10]}"


def _rate_unit(rows: list[dict]) -> tuple[float, str]:
    """(FLOP per microsecond of the unit, its name): CPUs are read in GFLOP/s."""
    fastest = max((r["flops"] / time_of(r) for r in rows if time_of(r)), default=0.0)
    return (1e6, "TFLOP/s") if fastest >= 1e6 else (1e3, "GFLOP/s")


def by_length(rows: list[dict], environment: dict, folder: pathlib.Path) -> None:
    unit, unit_name = _rate_unit(rows)
    families = _families(rows, unit)
    if not families:
        print("no chart by length: no two square cases differ in length alone")
        return
    names = list(dict.fromkeys(n for f in families.values() for n in f))
    styles = _style(names)
    figure, axes = plt.subplots(2, len(families), figsize=(4.6 * len(families), 7.2), squeeze=False, sharex="col")
    for column, ((dim, dtype, causal), family) in enumerate(sorted(families.items())):
        for name, points in family.items():
            lengths, times, rates = zip(*points)
            axes[0][column].plot(lengths, times, label=name, **styles[name])
            axes[1][column].plot(lengths, rates, label=name, **styles[name])
        axes[0][column].set(xscale="log", yscale="log", title=f"d{dim} {dtype}{', causal' if causal else ''}")
        axes[1][column].set(xscale="log", xlabel="queries = keys", ylim=(0, None))
        lengths = sorted({p[0] for points in family.values() for p in points})
        axes[1][column].set_xticks(lengths, [f"{n // 1024}k" if n >= 1024 else str(n) for n in lengths])
        axes[1][column].minorticks_off()
        for row in (0, 1):
            axes[row][column].grid(True, which="major", alpha=0.3)
    axes[0][0].set_ylabel("µs per call (p50)")
    axes[1][0].set_ylabel(unit_name)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, -0.06), ncols=4, fontsize=8, frameon=False)
    figure.suptitle(_title(environment), fontsize=9)
    _save(figure, folder, "latency_throughput")


def roofline(rows: list[dict], environment: dict, limits: dict, folder: pathlib.Path) -> None:
    """Our kernels as points, the best peer of each case as rings, under this machine's measured ceilings."""
    timed: dict[str, dict[str, dict]] = {}
    for row in rows:
        if time_of(row):
            timed.setdefault(row["case"], {})[row["contender"]] = row
    if not timed:
        print("no roofline: nothing was timed")
        return
    unit, unit_name = _rate_unit(rows)
    per_second = 1e-6 / unit  # FLOP/s to the unit
    figure, axis = plt.subplots(figsize=(8, 5.4))
    intensities = [r["flops"] / r["bytes"] for case in timed.values() for r in case.values()]
    x = np.geomspace(min(intensities) / 4, max(intensities) * 4, 200)
    axis.plot(x, np.minimum(limits["flops"], x * limits["bytes"]) * per_second, color="black", linewidth=1.2)
    roof = limits["flops"] * per_second
    axis.annotate(f"{roof:.3g} {unit_name} (matrix product)", (x[-1], roof), ha="right", va="bottom", fontsize=8)
    axis.annotate(f"{limits['bytes'] * 1e-9:.3g} GB/s (copy)", (x[0], x[0] * limits["bytes"] * per_second), ha="left",
                  va="top", xytext=(8, 0), textcoords="offset points", fontsize=8)  # fmt: skip
    labelled = set()
    for case, contenders in timed.items():
        peers = [r for n, r in contenders.items() if n != OURS]
        best = min(peers, key=time_of, default=None)
        for row, label, style in (
            (contenders.get(OURS), "Tessera", {"color": "#c1272d", "marker": "o", "s": 36, "zorder": 5}),
            (best, "best peer", {"facecolors": "none", "edgecolors": "#7f7f7f", "marker": "o", "s": 44}),
        ):
            if row is None:
                continue
            point = (row["flops"] / row["bytes"], row["flops"] / time_of(row) / unit)
            axis.scatter(*point, label=None if label in labelled else label, **style)
            labelled.add(label)
            if label == "Tessera":
                axis.annotate(case, point, xytext=(4, -9), textcoords="offset points", fontsize=6)
    axis.set(xscale="log", yscale="log", xlabel="FLOP per byte of least traffic", ylabel=unit_name)
    axis.grid(True, which="major", alpha=0.3)
    axis.legend(frameon=False)
    axis.set_title(_title(environment), fontsize=9)
    _save(figure, folder, "roofline")


def draw(results: dict, folder: pathlib.Path) -> None:
    by_length(results["rows"], results["environment"], folder)
    roofline(results["rows"], results["environment"], results["ceilings"], folder)
