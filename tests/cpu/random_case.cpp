#include "random_case.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "cases/codes.hpp"
#include "cases/masks.hpp"
#include "cases/sequences.hpp"

namespace tessera::testing_cpu {

using namespace tessera::cases;

namespace {

// Keeps the oracle at about a millisecond a case.
constexpr std::int64_t kMostMultiplyAdds = 400000;

class Picker {
 public:
  Picker(const Random& random, std::uint64_t number) : random_(random), at_(number << 8) {}
  std::int64_t below(std::int64_t limit) { return random_.below(at_++, limit); }
  std::int64_t between(std::int64_t least, std::int64_t most) { return least + below(most - least + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <std::size_t N>
  std::int64_t any(const std::array<std::int64_t, N>& list) {
    return list[static_cast<std::size_t>(below(N))];
  }

 private:
  const Random& random_;
  std::uint64_t at_;
};

constexpr std::array<std::int64_t, 20> kDims = {1,  2,  3,  4,  5,  7,  8,  16,  24,  31,
                                                32, 40, 64, 64, 72, 80, 96, 128, 192, 256};

std::int64_t pick_length(Picker& pick) {
  switch (pick.below(8)) {
    case 0:
      return 1;
    case 1:
      return pick.one_in(8) ? 0 : 2;
    case 2:
    case 3:
      return pick.between(3, 17);
    case 4:
    case 5:
      return pick.between(18, 70);
    case 6:
      return pick.any<6>({63, 64, 65, 127, 128, 129});
    default:
      return pick.between(71, 600);
  }
}

// What a mask holds beside noise; not every shape of a mask can hold everything.
void pick_content(Picker& pick, Case* c) {
  c->mask_lowest = c->mask_type == MaskType::additive && pick.one_in(4);
  if (pick.one_in(2)) return;
  const bool* real = mask_dims(c->mask_shape).real;
  if (by_entry(*c)) {  // what a mask holds by position is for dense batches
    if (!real[2] || !real[3]) return;
    c->mask_content = MaskContent::tiles;
    c->mask_block = pick.between(1, 130);
  } else if (real[2] && real[3]) {
    c->mask_content = static_cast<MaskContent>(pick.between(1, 3));
    c->mask_block = pick.between(1, 130);
  } else if (real[3]) {
    c->mask_content = MaskContent::padding;
  }
}

// A batch of sequences: one case in four.
void pick_sequences(Picker& pick, Case* c) {
  if (pick.one_in(12)) c->output_dtype = TESSERA_F32;
  if (!pick.one_in(4)) return;
  c->ragged = !pick.one_in(4);
  const std::int64_t keys = pick.below(4);
  c->packed = keys == 0;
  if (keys > 1) c->page = pick.any<8>({1, 2, 3, 16, 16, 48, 64, 784});
  if (c->ragged && pick.one_in(3)) c->priors = pick.between(1, 3);
}

void pick_options(Picker& pick, Case* c) {
  if (pick.one_in(2)) {
    c->align = pick.one_in(2) ? TESSERA_ALIGN_TOP_LEFT : TESSERA_ALIGN_BOTTOM_RIGHT;
    c->right = pick.one_in(2) ? 0 : pick.one_in(3) ? TESSERA_UNBOUNDED : pick.between(0, 20);
    c->left = pick.one_in(2) ? TESSERA_UNBOUNDED : pick.between(0, 90);
  }
  if (pick.one_in(3)) {
    c->mask_shape = static_cast<MaskShape>(pick.between(1, 8));
    c->mask_type = pick.one_in(2) ? MaskType::boolean : MaskType::additive;
    pick_content(pick, c);
    const bool anywhere = c->mask_content == MaskContent::random || c->mask_content == MaskContent::tiles;
    if (mask_dims(c->mask_shape).real[3] && anywhere && pick.one_in(4)) c->mask_last = pick.between(1, 90);
  }
  c->key_lengths = !c->packed && pick.one_in(by_entry(*c) ? 2 : 4);
  const bool square = c->queries == c->keys && !c->key_lengths && !by_entry(*c);
  c->alibi = pick.one_in(5) && (c->align != TESSERA_ALIGN_NONE || square);
  c->sinks = pick.one_in(5);
  if (pick.one_in(5)) c->softcap = static_cast<float>(pick.between(1, 400)) / 8;
  if (pick.one_in(5)) c->scale = static_cast<float>(pick.between(-40, 40)) / 64;
  if (pick.one_in(40)) c->scale = TESSERA_SCALE_ZERO;
}

void pick_codes(Picker& pick, Case* c) {
  c->scales = static_cast<ScaleKind>(pick.below(6));
  c->transposed = pick.one_in(3);
  c->fast = pick.one_in(3);
  if (pick.one_in(3)) c->output_dtype = TESSERA_BF16;
}

void pick_cache(Picker& pick, Case* c) {
  constexpr tessera_dtype kCaches[] = {TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8};
  c->cache = kCaches[pick.below(3)];
  c->scales = static_cast<ScaleKind>(pick.below(6));
  c->transposed = pick.one_in(3);
}

// New rows and rope: one case in three.
void pick_append(Picker& pick, Case* c) {
  if (!pick.one_in(3)) return;
  c->append = !c->packed && !pick.one_in(4);
  c->align = TESSERA_ALIGN_BOTTOM_RIGHT;
  if (of_codes(*c)) return;
  c->latent = pick.one_in(5) && c->value_dim <= c->dim && c->cache == 0;
  if (c->dim < 2 || pick.one_in(5)) return;
  c->rope_pairs = pick.one_in(2) ? c->dim / 2 : pick.between(1, c->dim / 2);
  c->rope_first = pick.below(c->dim - 2 * c->rope_pairs + 1);
  c->rope_interleaved = pick.one_in(2);
  c->positions = !c->alibi && pick.one_in(3);
}

// Keys in two tensors: one case in six.
void pick_tail(Picker& pick, Case* c) {
  if (of_codes(*c) || c->dim < 2 || !pick.one_in(6)) return;
  c->tail = pick.one_in(2) ? std::min<std::int64_t>(c->dim / 2, 64) : pick.between(1, c->dim - 1);
  const bool fits = c->value_dim <= c->key_dim() && !c->transposed;
  c->latent = fits && (c->latent || pick.one_in(3));
}

}  // namespace

Case random_case(const Random& random, std::uint64_t number) {
  Picker pick(random, number);
  Case c;
  c.batch = pick.one_in(40) ? 0 : pick.between(1, 3);
  c.kv_heads = pick.between(1, 3);
  c.heads = c.kv_heads * (pick.one_in(2) ? 1 : pick.between(2, 9));
  c.queries = pick_length(pick);
  c.keys = pick.one_in(4) ? c.queries : pick_length(pick);
  c.dim = pick.any(kDims);
  c.value_dim = pick.one_in(4) ? pick.any(kDims) : c.dim;
  c.dtype = static_cast<tessera_dtype>(TESSERA_F32 + pick.below(5));
  c.layout = static_cast<Layout>(pick.below(3));
  // Too much work for its place in a row of thousands: shorten whatever is longest.
  while (c.batch * c.heads * c.queries * (c.keys + 1) * (c.dim + c.value_dim) > kMostMultiplyAdds) {
    if (c.heads > c.kv_heads && pick.one_in(3))
      c.heads = c.kv_heads;
    else if (c.batch > 1)
      c.batch = 1;
    else if (c.queries >= c.keys && c.queries > 1)
      c.queries = c.queries / 2;
    else if (c.keys > 1)
      c.keys = c.keys * 2 / 3;
    else
      c.dim = c.value_dim = 16;
  }
  pick_sequences(pick, &c);
  pick_options(pick, &c);
  if (of_codes(c)) pick_codes(pick, &c);
  if (!of_codes(c) && pick.one_in(4)) pick_cache(pick, &c);
  pick_append(pick, &c);
  pick_tail(pick, &c);
  return c;
}

Case smallest_failing(Case c, const std::function<bool(const Case&)>& fails) {
  const std::vector<std::function<void(Case&)>> simplifications = {
      [](Case& x) { x.layout = Layout::bhsd; },
      [](Case& x) { x.sinks = false; },
      [](Case& x) { x.alibi = false; },
      [](Case& x) { x.key_lengths = false; },
      [](Case& x) { x.softcap = 0; },
      [](Case& x) { x.scale = 0; },
      [](Case& x) {
        x.mask_shape = MaskShape::none, x.mask_type = MaskType::boolean, x.mask_content = MaskContent::random;
        x.mask_block = 0, x.mask_lowest = false, x.mask_last = 0;
      },
      [](Case& x) { x.mask_last = 0; },
      [](Case& x) { x.priors = 0; },
      [](Case& x) { x.page = 0; },
      [](Case& x) { x.packed = false; },
      [](Case& x) { x.ragged = false; },
      [](Case& x) { x.output_dtype = 0; },
      [](Case& x) { x.scales = ScaleKind::none; },
      [](Case& x) { x.cache = 0, x.scales = ScaleKind::none, x.transposed = false; },
      [](Case& x) { x.transposed = false; },
      [](Case& x) { x.fast = false; },
      [](Case& x) { x.positions = false; },
      [](Case& x) { x.rope_pairs = x.rope_first = 0, x.rope_interleaved = x.positions = false; },
      [](Case& x) { x.rope_first = 0; },
      [](Case& x) { x.rope_interleaved = false; },
      [](Case& x) { x.rope_pairs = (x.rope_pairs + 1) / 2; },
      [](Case& x) { x.append = false; },
      [](Case& x) { x.latent = false; },
      [](Case& x) { x.tail = 0; },
      [](Case& x) { x.tail = (x.tail + 1) / 2; },
      [](Case& x) { x.mask_content = MaskContent::random, x.mask_block = 0; },
      [](Case& x) { x.mask_lowest = false; },
      [](Case& x) {
        if (!x.alibi) x.align = TESSERA_ALIGN_NONE, x.left = x.right = TESSERA_UNBOUNDED;
      },
      [](Case& x) { x.batch = std::min<std::int64_t>(x.batch, 1); },
      [](Case& x) { x.heads = x.kv_heads; },
      [](Case& x) { x.heads /= x.kv_heads, x.kv_heads = 1; },
      [](Case& x) { x.queries /= 2; },
      [](Case& x) { x.keys /= 2; },
      [](Case& x) { x.queries -= x.queries > 0 ? 1 : 0; },
      [](Case& x) { x.keys -= x.keys > 0 ? 1 : 0; },
      [](Case& x) { x.dim = (x.dim + 1) / 2; },
      [](Case& x) { x.value_dim = (x.value_dim + 1) / 2; },
      [](Case& x) { x.dtype = TESSERA_F32; },
  };
  for (bool simpler = true; simpler;) {
    simpler = false;
    for (const auto& simplify : simplifications) {
      Case candidate = c;
      simplify(candidate);
      std::string error;
      if (candidate == c || !parse(words(candidate), &error) || !fails(candidate)) continue;
      c = candidate;
      simpler = true;
    }
  }
  return c;
}

}  // namespace tessera::testing_cpu
