"""Every implementation of attention that this machine has, as name -> function() on the same tensors.

A peer that cannot take a case says so; what is not installed is listed with its reason.
"""

from __future__ import annotations

import importlib
import sys
from typing import Callable

import bench_options
from bench_torch import FLEX, Peer, flex_peer, torch_backends, torch_peer

FALLBACK = "sm80"
OUR_FALLBACK = f"tessera {FALLBACK}"


def with_workspace(q, k, v, arguments: dict) -> tuple[dict, dict]:
    """(plan, arguments): where the plan would use scratch memory, as much of it, allocated once beforehand."""
    import tessera

    if not hasattr(q, "is_cuda") or not q.is_cuda:  # a CPU call keeps its own
        return tessera.plan(q, k, v, **arguments), arguments
    plan = tessera.plan(q, k, v, workspace=True, **arguments)
    if plan["workspace_bytes"] > 0:
        import torch

        arguments = arguments | {"workspace": q.new_empty(plan["workspace_bytes"] + 255, dtype=torch.uint8)}
    return plan, arguments


def our_peer(case, options, q, k, v) -> Peer:
    import tessera

    try:
        plan, arguments = with_workspace(q, k, v, bench_options.keywords(case, options))
    except (tessera.Error, ValueError) as error:
        return Peer("tessera", None, str(error))
    return Peer("tessera", lambda: tessera.attend(q, k, v, **arguments), plan["kernel"])


def our_fallback(case, options, q, k, v) -> Peer:
    """The production kernel for Ampere and Ada, where another one is chosen."""
    import tessera

    try:
        arguments = bench_options.keywords(case, options)
        if tessera.plan(q, k, v, **arguments)["kernel"] == FALLBACK:
            return Peer(OUR_FALLBACK, None, "what `tessera` runs")
        _, arguments = with_workspace(q, k, v, arguments | {"kernel": FALLBACK})
    except (tessera.Error, ValueError) as error:
        return Peer(OUR_FALLBACK, None, str(error))
    return Peer(OUR_FALLBACK, lambda: tessera.attend(q, k, v, **arguments))


def jax_peer(case, q, k, v, device: str) -> Peer:
    """jax.nn.dot_product_attention, jitted, on the same memory, with rows before heads as it wants them."""
    name = "jax.nn"
    try:
        jax = importlib.import_module("jax")
    except ImportError as error:
        return Peer(name, None, str(error))
    if case.options or case.causal_flag is None:
        return Peer(name, None, "no such option in jax.nn.dot_product_attention")
    try:
        target = jax.devices("cuda" if device == "cuda" else "cpu")[0]
        if hasattr(q, "detach"):
            arrays = [jax.dlpack.from_dlpack(t.transpose(1, 2).contiguous()) for t in (q, k, v)]
        else:
            arrays = [jax.device_put(t.transpose(0, 2, 1, 3).copy(), target) for t in (q, k, v)]
        causal = case.causal_flag
        function = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal))
        with jax.default_device(target):
            jax.block_until_ready(function(*arrays))
    except Exception as error:  # any of its backends' own ways to refuse
        return Peer(name, None, str(error).strip().split("\n")[0][:200])

    def call():
        out = jax.block_until_ready(function(*arrays))
        return out.swapaxes(1, 2)

    return Peer(name, call, capturable=False, synchronize=lambda: None)


FA3_OPERATORS = "flash_attn_3"


def load_fa3(library: str) -> None:
    """Loads FlashAttention-3's torch operators from a library file, with the CUDA runtime that may lie beside it."""
    import ctypes
    import pathlib

    import torch

    for runtime in sorted(pathlib.Path(library).resolve().parent.glob("libcudart.so*")):
        ctypes.CDLL(str(runtime))
    torch.ops.load_library(library)


def fa2(rows, case):
    attention = importlib.import_module("flash_attn").flash_attn_func
    return lambda: attention(*rows, causal=case.causal is not None)


def fa3(rows, case):
    """By its torch operators: there if load_fa3 or the import of a package that carries them registered them."""
    import torch

    operators = getattr(torch.ops, FA3_OPERATORS)
    if not hasattr(operators, "fwd"):
        importlib.import_module("flash_attn_interface")
    # As its own Python functions do: it chooses how to split keys in decoding, and does not split otherwise.
    splits = 0 if case.queries < 64 else 1
    return lambda: operators.fwd(*rows, is_causal=case.causal is not None, num_splits=splits)[0]


def fa4(rows, case):
    attention = importlib.import_module("flash_attn.cute.interface").flash_attn_func
    return lambda: attention(*rows, causal=case.causal is not None)[0]


def flash_peer(name: str, make: Callable, case, q, k, v, device: str) -> Peer:
    """One of FlashAttention 2, 3 and 4, where it is installed; all want rows before heads and align to the bottom right."""
    if device != "cuda" or case.options or case.dtype == "float32":
        return Peer(name, None, "CUDA, half precision and no further options only")
    try:
        call = make([t.transpose(1, 2).contiguous() for t in (q, k, v)], case)
    except Exception as error:
        return Peer(name, None, f"not installed: {str(error).splitlines()[0]}")

    def heads_first():
        out = call()
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    try:
        heads_first()
    except Exception as error:
        return Peer(name, None, str(error).strip().split("\n")[0][:200] or repr(error))
    return Peer(name, heads_first)


def peers(case, options, q, k, v, device: str, wanted: list[str]) -> list[Peer]:
    """Ours first, then everyone else's; only those wanted, if any are named. An unknown name ends the program.

    `options` as bench_options.make makes them, on the device.
    """
    makers: dict[str, Callable[[], Peer]] = {"tessera": lambda: our_peer(case, options, q, k, v)}
    if device == "cuda":
        makers[OUR_FALLBACK] = lambda: our_fallback(case, options, q, k, v)
    if hasattr(q, "detach"):
        for name, backends in torch_backends(device).items():
            makers[name] = lambda name=name, backends=backends: torch_peer(name, backends, case, options, q, k, v)
        makers[FLEX] = lambda: flex_peer(case, options, q, k, v, device)
        for name, make in (("FlashAttention-2", fa2), ("FlashAttention-3", fa3), ("FlashAttention-4", fa4)):
            makers[name] = lambda name=name, make=make: flash_peer(name, make, case, q, k, v, device)
    makers["jax.nn"] = lambda: jax_peer(case, q, k, v, device)
    if unknown := set(wanted) - set(makers):
        sys.exit(f"compare: no contender {', '.join(sorted(unknown))}; there are: {', '.join(makers)}")
    return [make() for name, make in makers.items() if not wanted or name in wanted]
