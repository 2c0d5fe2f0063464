"""An existing PyTorch model on Tessera: one line around the call, and a report of what happened.

    python examples/python/torch_drop_in.py
"""

import sys

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import tessera.torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(d_model=256, nhead=8, dropout=0.0, batch_first=True)
x = torch.randn(2, 100, 256)

with torch.no_grad():
    want = layer(x)
    with tessera.torch.patched() as report:
        got = layer(x)
print(report)
print("largest difference", (got - want).abs().max().item())
assert report.calls == 1 and torch.allclose(got, want, atol=1e-5)

# A drop-in must not make a model slower: training, which has no kernels here yet, is left to PyTorch ...
with tessera.torch.patched() as report:
    layer(x)[..., :16].sum().backward()
print(report)
assert report.calls == 0
# ... unless told otherwise; the backward pass then recomputes with PyTorch, exact and slow.
with tessera.torch.patched(prefer="tessera") as report:
    layer(x)[..., :16].sum().backward()
assert report.calls == 1
print("gradient of the input projection", layer.self_attn.in_proj_weight.grad.norm().item())

# What Tessera does not compute goes to PyTorch too, and says why.
q = torch.randn(1, 8, 16, 64)
tessera.torch.sdpa(q, q, q, dropout_p=0.1)
print("fell back:", tessera.torch.last_fallback())

# Compiled code sees one operator.
torch.set_grad_enabled(False)
model = torch.compile(lambda q: tessera.torch.sdpa(q, q, q, is_causal=True).sum(), backend="aot_eager", fullgraph=True)
print("compiled", model(q).item())
