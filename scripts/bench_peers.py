"""Every implementation of attention that this machine has, as name -> function() on the same tensors.

A peer that cannot take a case says so; what is not installed is listed with its reason.
"""

from __future__ import annotations

import importlib
import sys
from typing import Callable, NamedTuple


FALLBACK = "sm80"
OUR_FALLBACK = f"tessera {FALLBACK}"


class Peer(NamedTuple):
    name: str
    call: Callable | None  # None: it cannot, and `why` says why
    why: str = ""
    capturable: bool = True  # in a CUDA graph of PyTorch
    synchronize: Callable | None = None  # None: PyTorch's, or none needed on a CPU


def torch_backends(device: str) -> dict[str, list | None]:
    """Name to the list that sdpa_kernel() takes; None is PyTorch's own choice."""
    from torch.nn.attention import SDPBackend

    names = ["FLASH_ATTENTION", "MATH"]
    if device == "cuda":
        names += ["CUDNN_ATTENTION", "EFFICIENT_ATTENTION"]
    found: dict[str, list | None] = {"torch default": None}
    for name in names:
        backend = getattr(SDPBackend, name, None)
        if backend is not None:
            found["torch " + name.split("_")[0].lower()] = [backend]
    return found


def torch_peer(name: str, backends, case, q, k, v) -> Peer:
    """One forced backend, entered once per call as a user would, and tried before it is offered."""
    import contextlib

    import torch.nn.functional as F
    from torch.nn.attention import sdpa_kernel

    if case.options:
        return Peer(name, None, f"no {' '.join(case.options)} in F.scaled_dot_product_attention")
    if case.causal_flag is None:
        return Peer(name, None, "no bottom-right flag in F.scaled_dot_product_attention")
    arguments = {"is_causal": case.causal_flag}
    if case.heads != case.kv_heads:
        arguments["enable_gqa"] = True

    def call():
        with sdpa_kernel(backends) if backends else contextlib.nullcontext():
            return F.scaled_dot_product_attention(q, k, v, **arguments)

    try:
        call()
    except (RuntimeError, TypeError) as error:
        return Peer(name, None, str(error).strip().split("\n")[0])
    return Peer(name, call)


def our_peer(case, q, k, v) -> Peer:
    import tessera

    if case.options:
        return Peer("tessera", None, "cases with further options are timed by `tessera bench`")
    try:
        kernel = tessera.plan(q, k, v, causal=case.causal)["kernel"]
    except (tessera.Error, ValueError) as error:
        return Peer("tessera", None, str(error))
    return Peer("tessera", lambda: tessera.attend(q, k, v, causal=case.causal), kernel)


def our_fallback(case, q, k, v) -> Peer:
    """The production kernel for Ampere and Ada, where another one is chosen."""
    import tessera

    try:
        plan = tessera.plan(q, k, v, causal=case.causal)
        if plan["kernel"] == FALLBACK:
            return Peer(OUR_FALLBACK, None, "what `tessera` runs")
        tessera.plan(q, k, v, causal=case.causal, kernel=FALLBACK)
    except (tessera.Error, ValueError) as error:
        return Peer(OUR_FALLBACK, None, str(error))
    return Peer(OUR_FALLBACK, lambda: tessera.attend(q, k, v, causal=case.causal, kernel=FALLBACK))


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


def peers(case, q, k, v, device: str, wanted: list[str]) -> list[Peer]:
    """Ours first, then everyone else's; only those wanted, if any are named. An unknown name ends the program."""
    makers: dict[str, Callable[[], Peer]] = {"tessera": lambda: our_peer(case, q, k, v)}
    if device == "cuda" and not case.options:
        makers[OUR_FALLBACK] = lambda: our_fallback(case, q, k, v)
    if hasattr(q, "detach"):
        for name, backends in torch_backends(device).items():
            makers[name] = lambda name=name, backends=backends: torch_peer(name, backends, case, q, k, v)
        for name, make in (("FlashAttention-2", fa2), ("FlashAttention-3", fa3), ("FlashAttention-4", fa4)):
            makers[name] = lambda name=name, make=make: flash_peer(name, make, case, q, k, v, device)
    makers["jax.nn"] = lambda: jax_peer(case, q, k, v, device)
    if unknown := set(wanted) - set(makers):
        sys.exit(f"compare: no contender {', '.join(sorted(unknown))}; there are: {', '.join(makers)}")
    return [make() for name, make in makers.items() if not wanted or name in wanted]
