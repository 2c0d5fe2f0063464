"""Every implementation of attention that this machine has, as name -> function() on the same tensors.

A peer that cannot take a case says so; what is not installed is listed with its reason.
"""

from __future__ import annotations

import importlib
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


def flash_peers(case, q, k, v, device: str) -> list[Peer]:
    """FlashAttention 2 and 3, where they are installed; both want rows before heads."""
    found = []
    for name, module, function in (
        ("FlashAttention-2", "flash_attn", "flash_attn_func"),
        ("FlashAttention-3", "flash_attn_interface", "flash_attn_func"),
    ):
        try:
            attention = getattr(importlib.import_module(module), function)
        except Exception as error:
            found.append(Peer(name, None, f"not installed: {error}"))
            continue
        if device != "cuda" or case.options or case.dtype == "float32":
            found.append(Peer(name, None, "CUDA, half precision and no further options only"))
            continue
        rows = [t.transpose(1, 2).contiguous() for t in (q, k, v)]
        causal = case.causal is not None

        def call(attention=attention, rows=rows, causal=causal):
            out = attention(*rows, causal=causal)
            return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

        try:
            call()
            found.append(Peer(name, call))
        except Exception as error:
            found.append(Peer(name, None, str(error).split("\n")[0]))
    return found


def peers(case, q, k, v, device: str) -> list[Peer]:
    """Ours first, then everyone else's."""
    found = [our_peer(case, q, k, v)]
    if device == "cuda" and not case.options:
        found.append(our_fallback(case, q, k, v))
    if hasattr(q, "detach"):
        found += [torch_peer(n, b, case, q, k, v) for n, b in torch_backends(device).items()]
        found += flash_peers(case, q, k, v, device)
    found.append(jax_peer(case, q, k, v, device))
    return found
