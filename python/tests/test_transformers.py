"""attn_implementation="tessera": tiny models of Hugging Face, random weights, against their own eager attention."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import pytest
from conftest import need

torch = need("torch")
transformers = need("transformers")

import tessera.torch  # noqa: E402
import tessera.transformers  # noqa: E402

SMALL = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip
WINDOW = 8
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL, num_key_value_heads=2),
    "mistral": lambda: transformers.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=WINDOW),
    # A cap so low that leaving it out shows.
    "gemma2": lambda: transformers.Gemma2Config(
        **SMALL, num_key_value_heads=2, head_dim=16, sliding_window=WINDOW, attn_logit_softcapping=0.5,
        query_pre_attn_scalar=1, initializer_range=0.3,
    ),
    "gpt-oss": lambda: transformers.GptOssConfig(
        **SMALL, num_key_value_heads=2, head_dim=16, sliding_window=WINDOW, num_local_experts=4, num_experts_per_tok=2,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def registered():
    tessera.transformers.register()


def decoder(name, dtype=torch.float32):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), attn_implementation="eager")
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("sinks"):
            torch.nn.init.normal_(parameter)
    return model.to(dtype).eval()


def tokens(rows, batch=2):
    return torch.randint(2, 96, (batch, rows), generator=torch.Generator().manual_seed(1))


def with_tessera(model, run, calls):
    """run() on Tessera, which must have computed at least so many layers, and PyTorch none."""
    model.set_attn_implementation("tessera")
    with torch.no_grad(), tessera.torch.patched() as report:
        result = run()
    model.set_attn_implementation("eager")
    assert report.calls >= calls and not report.fallbacks, str(report)
    return result


def logits_match(model, calls=2, **inputs):
    run = lambda: model(**inputs, use_cache=False).logits  # noqa: E731
    with torch.no_grad():
        want = run()
    got = with_tessera(model, run, calls)
    seen = inputs.get("attention_mask", torch.ones(got.shape[:2])).bool()  # a padding token's own row means nothing
    torch.testing.assert_close(got[seen], want[seen], atol=2e-4, rtol=1e-3)
    return got


@pytest.mark.parametrize("rows", [1, 5, 33])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits(name, rows):
    logits_match(decoder(name), input_ids=tokens(rows))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", CONFIGS)
def test_padding(name, side):
    mask = torch.ones(2, 21, dtype=torch.long)
    mask[0, slice(0, 6) if side == "left" else slice(15, 21)] = 0
    logits_match(decoder(name), input_ids=tokens(21), attention_mask=mask)


def test_the_cap_and_the_sinks_reach_the_kernel(monkeypatch):
    """Without them the logits would be others: what the tests above compare is not blind to them."""
    whole = tessera.transformers.attend
    for name, option in (("gemma2", "softcap"), ("gpt-oss", "sinks")):
        model = decoder(name)
        with torch.no_grad():
            want = model(tokens(9), use_cache=False).logits
        monkeypatch.setattr(tessera.transformers, "attend", lambda *a, option=option, **o: whole(*a, **(o | {option: None})))
        got = with_tessera(model, lambda: model(tokens(9), use_cache=False).logits, 2)
        assert not torch.allclose(got, want, atol=2e-4, rtol=1e-3), option
        monkeypatch.setattr(tessera.transformers, "attend", whole)


@pytest.mark.parametrize("name", CONFIGS)
def test_windows_are_arguments_and_no_masks(name, monkeypatch):
    """A causal band reaches the kernel as such; only padding makes it read a mask."""
    model, seen = decoder(name), []
    whole = tessera.transformers.attend
    monkeypatch.setattr(tessera.transformers, "attend", lambda *a, **o: (seen.append(o), whole(*a, **o))[1])
    with_tessera(model, lambda: model(tokens(33)), 2)
    assert all(o["mask"] is None and o["causal"] for o in seen)
    slides = [o["window"][0] for o in seen if "window" in o]
    assert slides == {"llama": [], "mistral": [WINDOW - 1] * 2}.get(name, [WINDOW - 1])


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_generate(name, padded, cache):
    model = decoder(name)
    mask = torch.ones(2, 12, dtype=torch.long)
    if padded:
        mask[0, :5] = 0
    options = {"max_new_tokens": 10, "do_sample": False, "output_logits": True, "return_dict_in_generate": True,
               "disable_compile": True}  # fmt: skip
    if cache == "static":
        options["cache_implementation"] = "static"
    run = lambda: model.generate(tokens(12), attention_mask=mask, **options)  # noqa: E731
    with torch.no_grad():
        want = run()
    got = with_tessera(model, run, 20)
    assert torch.equal(got.sequences, want.sequences)
    for a, b in zip(got.logits, want.logits, strict=True):
        torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_second_piece_of_the_prompt(name):
    """Several rows against a cache that is not empty: bottom-right causal, windows included."""
    model, ids = decoder(name), tokens(30)

    def run():
        first = model(ids[:, :17], use_cache=True)
        return model(ids[:, 17:], past_key_values=first.past_key_values).logits

    with torch.no_grad():
        want = run()
    torch.testing.assert_close(with_tessera(model, run, 4), want, atol=2e-4, rtol=1e-3)


def test_an_encoder():
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(**SMALL, attn_implementation="eager")).eval()
    for mask in (torch.ones(2, 21, dtype=torch.long), torch.arange(21).expand(2, -1).lt(torch.tensor([[13], [21]])).long()):
        run = lambda: model(tokens(21), attention_mask=mask).last_hidden_state  # noqa: E731, B023
        with torch.no_grad():
            want = run()
        got = with_tessera(model, run, 2)
        torch.testing.assert_close(got[mask.bool()], want[mask.bool()], atol=2e-4, rtol=1e-3)


def test_bfloat16():
    model = decoder("gemma2", torch.bfloat16)
    with torch.no_grad():
        want = model(tokens(21)).logits
    torch.testing.assert_close(with_tessera(model, lambda: model(tokens(21)).logits, 2), want, atol=0.15, rtol=0.1)


def test_compiled():
    model = decoder("gemma2")
    ids = tokens(21)
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
    model.set_attn_implementation("tessera")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids, use_cache=False).logits, want, atol=2e-4, rtol=1e-3)
    torch._dynamo.reset()


def test_training_goes_to_pytorch_where_it_can():
    model = decoder("llama")
    ids = tokens(9)

    def gradients():
        loss = model(ids, labels=ids, use_cache=False).loss
        return torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad])

    want = gradients()
    model.set_attn_implementation("tessera")
    with tessera.torch.patched() as report:
        got = gradients()
    assert report.calls == 0 and "a gradient is wanted" in str(report)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


def test_what_pytorch_lacks_is_trained_here():
    model = decoder("gemma2")
    ids = tokens(9)
    gradients = lambda: torch.autograd.grad(model(ids, labels=ids, use_cache=False).loss, list(model.parameters()))  # noqa: E731
    want = gradients()
    model.set_attn_implementation("tessera")
    with tessera.torch.patched() as report:
        got = gradients()
    assert report.calls == 2 and not report.fallbacks
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


def test_refusals():
    model = decoder("gemma2")
    model.set_attn_implementation("tessera")
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    with pytest.raises(NotImplementedError, match="softcap or s_aux is given.*dropout_p is 0.5"):
        model.train()(tokens(9))
    q = torch.randn(1, 2, 5, 16)
    with pytest.raises(NotImplementedError, match="never stores the weights"):
        tessera.transformers.attention(torch.nn.Module(), q, q, q, None, output_attentions=True)
    with pytest.raises(ValueError, match="prefer is 'slower'"):
        tessera.transformers.register(prefer="slower")


def test_dropout_without_options_goes_to_pytorch():
    q = torch.randn(1, 2, 5, 16)
    with tessera.torch.patched() as report:
        tessera.transformers.attention(torch.nn.Module(), q, q, q, None, dropout=0.5)
    assert report.calls == 0 and "dropout_p is 0.5" in str(report)


def test_chunks_are_no_window():
    """Llama-4's local attention is in chunks; its mask must be read."""
    config = CONFIGS["llama"]()
    config.sliding_window = config.attention_chunk_size = 4
    mask = tessera.transformers.mask(2, 9, 9, local_size=4, config=config, mask_function=lambda b, h, q, k: (k <= q) & (k // 4 == q // 4))
    assert mask is not None and not hasattr(mask, tessera.transformers._BAND)
