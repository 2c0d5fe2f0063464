"""A model of Hugging Face behind continuous batching: a cache in pages, and one call of Tessera a layer and step.

    python examples/python/serving.py [--requests 12] [--pages 24] [--seed 1]

The twin of examples/serving, whose README has the picture of the loop. Requests arrive, are prefilled in chunks
beside decodes, share the pages of a common prefix (copied before the first write), give way when pages run out
and begin again. Then each of them is computed alone, in one call: the tokens have to be the same.

The model is Llama's architecture, small and with random weights, so that nothing is downloaded. Models of
transformers turn queries and keys (RoPE) themselves, so the call stores new rows in the pages, but turns none.
"""

import argparse
import sys
import time
from collections import deque
from dataclasses import dataclass, field

try:
    import torch
    from transformers import AttentionInterface, AttentionMaskInterface, LlamaConfig, LlamaForCausalLM
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import tessera
import tessera.transformers

PAGE, CHUNK, ENTRIES, LONGEST = 16, 24, 6, 128  # rows of a page, of a chunk; requests that run; tokens of one
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def attention(module, query, key, value, attention_mask, scaling=None, batch=None, **options):
    """One layer: the rows of all entries, one behind the other, as [1, heads, rows, dim]."""
    keys, values = batch.cache[module.layer_idx]
    output = tessera.attend(query, keys, values, new_key=key, new_value=value, causal="bottom-right", scale=scaling,
                            query_offsets=batch.offsets, key_lengths=batch.lengths, page_table=batch.table)  # fmt: skip
    return output.transpose(1, 2), None


AttentionInterface.register("tessera_pages", attention)
AttentionMaskInterface.register("tessera_pages", lambda *arguments, **options: None)  # offsets and lengths say it


@dataclass(eq=False)
class Request:
    number: int
    arrives: int
    tokens: list
    prompt: int
    wanted: int  # tokens in the end
    computed: int = 0  # tokens whose keys and values lie in the pages
    pages: list = field(default_factory=list)


class Pages:
    """Which pages are free, and how many requests name each of the others."""

    def __init__(self, count):
        self.free, self.uses = list(range(count)), [0] * count

    def take(self):
        page = self.free.pop()
        self.uses[page] = 1
        return page

    def share(self, page):
        self.uses[page] += 1

    def give_back(self, page):
        self.uses[page] -= 1
        if self.uses[page] == 0:
            self.free.append(page)


class Batch:
    """What one step computes: (request, rows) for each entry, as the tensors of the call."""

    def __init__(self, parts, cache):
        def tensor(values, dtype=torch.int32):
            return torch.tensor(values, dtype=dtype, device=DEVICE)

        rows = [(r, r.computed + i) for r, count in parts for i in range(count)]
        self.cache = cache
        self.tokens = tensor([[r.tokens[at] for r, at in rows]], torch.int64)
        self.positions = tensor([[at for _, at in rows]], torch.int64)
        self.offsets = tensor([0] + [count for _, count in parts]).cumsum(0, dtype=torch.int32)
        self.lengths = tensor([r.computed + count for r, count in parts])  # new rows included: they are the last
        columns = max(len(r.pages) for r, _ in parts)
        self.table = tensor([r.pages + [-1] * (columns - len(r.pages)) for r, _ in parts])  # -1: never looked at


class Engine:
    def __init__(self, model, pages, requests):
        config = model.config
        shape = (pages, config.num_key_value_heads, PAGE, config.head_dim)
        self.cache = [tuple(torch.empty(shape, device=DEVICE) for _ in range(2)) for _ in model.model.layers]
        self.model, self.pages, self.coming = model, Pages(pages), deque(requests)
        self.waiting, self.running, self.now = deque(), [], 0
        self.counts = dict.fromkeys(("steps", "mixed", "generated", "shared", "copies", "preemptions"), 0)

    def step(self):
        """One step; false when nothing is left to do."""
        if not self.running and not self.waiting and self.coming:
            self.now = max(self.now, self.coming[0].arrives)
        while self.coming and self.coming[0].arrives <= self.now:
            self.waiting.append(self.coming.popleft())
        while self.waiting and len(self.running) < ENTRIES and len(self.pages.free) * PAGE >= len(self.waiting[0].tokens):
            request = self.waiting.popleft()
            self.share_prefix(request)
            self.running.append(request)
        parts = []
        for request in list(self.running):  # the oldest first; the last ones may have to give way to it
            if request not in self.running:
                break
            rows = min(len(request.tokens) - request.computed, CHUNK)
            if self.make_room(request, request.computed + rows):
                parts.append((request, rows))
        if parts:
            self.compute(parts)
        self.now += 1
        return bool(self.running or self.waiting or self.coming)

    def share_prefix(self, request):
        """Names the pages of whoever has the longest common prefix; the last one may be full in part."""

        def common(other):
            most = min(other.computed, len(request.tokens) - 1)  # the last row is what is sampled from
            return next((n for n in range(most) if request.tokens[n] != other.tokens[n]), most)

        other = max(self.running, key=common, default=None)
        if other is None or common(other) < PAGE:
            return
        request.computed = common(other)
        request.pages = other.pages[: -(-request.computed // PAGE)]
        for page in request.pages:
            self.pages.share(page)
        self.counts["shared"] += request.computed

    def make_room(self, request, end):
        """Pages for its tokens up to `end`; those that new rows go to are named by nobody else."""
        for n in range(request.computed // PAGE, -(-end // PAGE)):
            if n < len(request.pages) and self.pages.uses[request.pages[n]] == 1:
                continue
            while not self.pages.free:
                youngest = self.running.pop()
                self.release(youngest)
                self.waiting.appendleft(youngest)
                self.counts["preemptions"] += 1
                if youngest is request:
                    return False
            if n == len(request.pages):
                request.pages.append(self.pages.take())
            elif self.pages.uses[request.pages[n]] > 1:
                old, request.pages[n] = request.pages[n], self.pages.take()
                for tensor in (tensor for layer in self.cache for tensor in layer):
                    tensor[request.pages[n]] = tensor[old]
                self.pages.give_back(old)
                self.counts["copies"] += 1
        return True

    def release(self, request):
        for page in request.pages:
            self.pages.give_back(page)
        request.pages, request.computed = [], 0

    def compute(self, parts):
        batch = Batch(parts, self.cache)
        states = self.model.model(input_ids=batch.tokens, position_ids=batch.positions, use_cache=False, batch=batch)
        logits = self.model.lm_head(states.last_hidden_state[0, batch.offsets[1:].long() - 1])
        best = logits.argmax(-1).tolist()
        self.counts["steps"] += 1
        rows = [count for _, count in parts]
        self.counts["mixed"] += min(rows) == 1 and max(rows) > 1
        for (request, count), token in zip(parts, best, strict=True):
            request.computed += count
            if request.computed < len(request.tokens):
                continue
            request.tokens.append(token)
            self.counts["generated"] += 1
            if len(request.tokens) == request.wanted:
                self.release(request)
                self.running.remove(request)


def make_requests(count, seed):
    random = torch.Generator().manual_seed(seed)

    def below(least, end):
        return int(torch.randint(least, end, (1,), generator=random))

    prefix, now, requests = [below(3, 256) for _ in range(40)], 0, []
    for number in range(count):
        tokens = prefix * (below(0, 4) > 0) + [below(3, 256) for _ in range(below(4, 48))]
        requests.append(Request(number, now, tokens, len(tokens), len(tokens) + below(8, 40)))
        now += below(0, 6)
    return requests


def parse(words):
    def whole(least, most):
        def number(word):
            if word.isascii() and word.isdigit() and least <= int(word) <= most:
                return int(word)
            raise argparse.ArgumentTypeError(f"'{word}' is not accepted; a whole number from {least} to {most} is")

        return number

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=whole(1, 1000), default=12, help="how many arrive (12)")
    parser.add_argument("--pages", type=whole(LONGEST // PAGE, 10000), default=24, help="of the cache (24)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of the weights and the requests (1)")
    return parser.parse_args(words)


def main(options):
    torch.set_num_threads(1)  # of PyTorch: the model is so small that waking a second one takes longer
    torch.manual_seed(options.seed)
    config = LlamaConfig(
        vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=LONGEST, initializer_range=0.1, pad_token_id=0, eos_token_id=None,
        attn_implementation="tessera_pages",
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval().to(DEVICE)
    requests = make_requests(options.requests, options.seed)
    engine = Engine(model, options.pages, requests)
    begin, shown = time.perf_counter(), 0
    while engine.step():
        done = sum(len(r.tokens) == r.wanted for r in requests)
        if sys.stdout.isatty():
            print(f"\rserved {done}/{len(requests)} [{'#' * (30 * done // len(requests)):.<30}]", end="", flush=True)
        elif 5 * done // len(requests) > shown:
            shown = 5 * done // len(requests)
            print(f"served {done}/{len(requests)}")
    passed = time.perf_counter() - begin
    counts = engine.counts
    end = "\r\033[K" if sys.stdout.isatty() else ""
    print(f"{end}{counts['generated']} tokens generated on {DEVICE}, {counts['generated'] / passed:.0f} a second")
    print(f"{counts['steps']} steps, {counts['mixed']} of them mixed; {counts['shared']} rows shared, "
          f"{counts['copies']} copied on write, {counts['preemptions']} preemptions")  # fmt: skip
    if len(engine.pages.free) != options.pages:
        sys.exit(f"{options.pages - len(engine.pages.free)} pages were not given back")

    tessera.transformers.register()
    ties = sum(compare(model, request, name) for name in ("tessera", "eager") for request in requests)
    print(f"the same tokens as each request alone, in one call, on tessera and on eager attention; {ties} ties")


def compare(model, request, name):
    """Every token against the model alone and without a cache; how many of them another rounding may change."""
    model.set_attn_implementation(name)
    logits = model(torch.tensor([request.tokens[:-1]], device=DEVICE), use_cache=False).logits[0, request.prompt - 1 :]
    served = torch.tensor(request.tokens[request.prompt :], device=DEVICE)
    behind = logits.max(-1).values - logits.gather(-1, served[:, None])[:, 0]
    n = int(behind.argmax())
    if behind[n] > 1e-4:  # float32: logits of different numbers of rows differ by some 1e-6
        sys.exit(f"request {request.number}, token {request.prompt + n} is {request.tokens[request.prompt + n]}, but "
                 f"{int(logits[n].argmax())} alone on {name} attention, ahead by {behind[n]:.2g}")  # fmt: skip
    return int((behind > 0).sum())


if __name__ == "__main__":
    with torch.no_grad():
        main(parse(sys.argv[1:]))
