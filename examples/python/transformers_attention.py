"""A model of Hugging Face on Tessera: attn_implementation="tessera", soft cap and sliding window included.

    python examples/python/transformers_attention.py

The model is Gemma-2's architecture, small and with random weights, so that nothing is downloaded; a real one
is loaded with AutoModelForCausalLM.from_pretrained(name, attn_implementation="tessera").
"""

import sys

try:
    import torch
    from transformers import Gemma2Config, Gemma2ForCausalLM
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import tessera.torch
import tessera.transformers

tessera.transformers.register()

torch.manual_seed(0)
config = Gemma2Config(
    vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=8,
    num_key_value_heads=4, head_dim=32, sliding_window=16, attn_logit_softcapping=50.0, pad_token_id=0,
    attn_implementation="tessera",
)  # fmt: skip
model = Gemma2ForCausalLM(config).eval()
prompt = torch.randint(3, 256, (2, 24))
mask = torch.ones_like(prompt)
mask[0, :7] = 0  # padding on the left, as batches of prompts have it

with torch.no_grad(), tessera.torch.patched() as report:  # patched() is here for its report
    ours = model.generate(prompt, attention_mask=mask, max_new_tokens=16, do_sample=False)
print(report)

model.set_attn_implementation("eager")
theirs = model.generate(prompt, attention_mask=mask, max_new_tokens=16, do_sample=False)
print("the same tokens as attn_implementation='eager':", torch.equal(ours, theirs))
assert torch.equal(ours, theirs) and report.calls == 4 * 16 and not report.fallbacks
