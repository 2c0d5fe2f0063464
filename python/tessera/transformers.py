"""Tessera for Hugging Face transformers: attn_implementation="tessera".

    import tessera.transformers
    tessera.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="tessera")

Soft caps (Gemma-2), sinks (gpt-oss), sliding windows and grouped heads reach the kernel.
"""

from __future__ import annotations

import functools

import torch
import transformers

try:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask
except ImportError as error:
    raise ImportError(
        f"tessera.transformers needs the attention and mask interfaces of transformers (5.17 is tested), and this is "
        f"{transformers.__version__} ({error}); tessera.torch.patched() reaches older ones"
    ) from None

from . import _binding
from ._torch_prefer import check_choice, faster_elsewhere
from ._torch_report import note_fallback
from ._torch_sdpa import is_traced, refusal
from .torch import attend

__all__ = ["attention", "mask", "register"]

_BAND = "_tessera_left"  # what mask() writes on a tensor that is a band: how many keys back a row sees


def register(name: str = "tessera", prefer: str = "faster") -> None:
    """Makes attn_implementation=name mean Tessera, for every model that uses the attention interface.

    prefer="faster" leaves to PyTorch what PyTorch computes faster, as tessera.torch.sdpa() does.
    """
    check_choice(prefer)
    AttentionInterface.register(name, functools.partial(attention, prefer=prefer))
    AttentionMaskInterface.register(name, mask)


def mask(
    batch_size,
    q_length,
    kv_length,
    q_offset=0,
    kv_offset=0,
    *,
    attention_mask=None,
    local_size=None,
    allow_is_causal_skip=True,
    config=None,
    **options,
):
    """The masks of sdpa. One that is but a causal band also says so, so that attention() need not read it.

    A model that changes its mask hands attention() another tensor, which says nothing and is read.
    """
    tensor = sdpa_mask(
        batch_size, q_length, kv_length, q_offset, kv_offset, attention_mask=attention_mask, local_size=local_size,
        allow_is_causal_skip=allow_is_causal_skip, config=config, **options,
    )  # fmt: skip
    if tensor is None or not allow_is_causal_skip or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return tensor
    # Local attention is a sliding window, or it is in chunks, which are no band.
    slides = local_size is None or local_size == getattr(config, "sliding_window", None)
    chunked = local_size is not None and local_size == getattr(config, "attention_chunk_size", None)
    ends_together = isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length
    if slides and not chunked and ends_together and (attention_mask is None or bool(attention_mask.all())):
        setattr(tensor, _BAND, kv_length if local_size is None else local_size - 1)
    return tensor


def attention(
    module,
    query,
    key,
    value,
    attention_mask,
    scaling=None,
    dropout=0.0,
    is_causal=None,
    softcap=None,
    s_aux=None,
    position_bias=None,
    prefer="faster",
    **options,
):
    """One layer's attention, as transformers calls it: ([batch, rows, heads, dim], None)."""
    if options.get("output_attentions"):
        raise _binding.Unsupported(
            "output_attentions is True, but Tessera never stores the weights; attn_implementation='eager' has them"
        )
    call, tensor = _band(query, key, attention_mask)
    if attention_mask is None and query.shape[2] > 1:
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        call = {"causal": "top-left"} if causal else {}  # the meaning that sdpa_mask() reckons with
    why = refusal(query, key, value, tensor, dropout, False, True)
    if why is None and position_bias is not None:
        why = "position_bias is given, which goes to PyTorch as a mask"
    if why is not None and (softcap is not None or s_aux is not None):
        raise _binding.Unsupported(f"softcap or s_aux is given, which PyTorch's attention lacks, but {why}")
    if why is None and softcap is None and s_aux is None and prefer == "faster":
        why = faster_elsewhere(query, key, value, tensor)
    if why is not None:
        note_fallback(why, is_traced(query))
        if position_bias is not None:
            options["position_bias"] = position_bias
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **options
        )
    sinks = None if s_aux is None else s_aux.float()
    output = attend(query, key, value, mask=tensor, scale=scaling, softcap=softcap, sinks=sinks, **call)
    return output.transpose(1, 2).contiguous(), None


def _band(query, key, attention_mask):
    """The mask as arguments of attend() and as a tensor: a band that mask() knew becomes a window."""
    left = getattr(attention_mask, _BAND, None)
    if left is None or attention_mask.shape[-2:] != (query.shape[2], key.shape[2]):
        return {}, attention_mask
    return {"causal": "bottom-right", "window": (left, 0)}, None
