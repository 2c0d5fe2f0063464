// Gives the tensors of a case memory: buffers with guard bands, values from the seed.
#include "cases/instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/append.hpp"
#include "cases/buffer.hpp"
#include "cases/codes.hpp"
#include "cases/fill.hpp"
#include "cases/masks.hpp"
#include "cases/random.hpp"
#include "cases/sequences.hpp"
#include "cases/tensors.hpp"
#include "core/tensors.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cases {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct InputName {
  Input input;
  std::string_view name;
};
constexpr InputName kInputNames[] = {
    {Input::normal, "normal"},       {Input::large, "large"},   {Input::dominant, "dominant"},
    {Input::equal, "equal"},         {Input::hidden, "hidden"}, {Input::tiny, "tiny"},
    {Input::nonfinite, "nonfinite"},
};

}  // namespace

struct Instance::Impl {
  Case c;
  Input input;
  std::uint64_t seed;
  tessera_attention problem;
  Sequences sequences{c, problem};
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;  // output, lse
  Caches caches;                // key and value, of cases that store new rows in them
  std::vector<std::uint64_t> fingerprints;
  std::unique_ptr<Mirror> mirror;

  Impl(const Case& shape, Input kind, std::uint64_t number);
  Random random(Stream stream) const { return {seed, stream}; }
  double scale() const {
    if (c.scale == TESSERA_SCALE_ZERO) return 0;
    return c.scale != 0 ? static_cast<double>(c.scale) : 1 / std::sqrt(static_cast<double>(c.dim));
  }

  void fill_lengths();
  void fill_head_floats();
  void fill_mask();
  void fill_rows();
  void fill_scales_of(const tessera_tensor& t, const tessera_tensor& scales, Stream stream, double factor);
  void fill_codes(const tessera_tensor& t, const tessera_tensor& scales, Stream stream, double factor);
  void make_dominant();
  void make_nonfinite();
  bool hidden_from_all(std::int64_t b, std::int64_t j) const;
  // Where keys lie.
  std::vector<const tessera_tensor*> key_parts() const {
    if (c.tail == 0) return {&problem.key};
    return {&problem.key, &problem.key_tail};
  }
  // At is where a row begins; -1: there is no such row.
  void set_row(const tessera_tensor& t, std::int64_t at, double value) {
    for (std::int64_t d = 0; at >= 0 && d < t.shape[3]; ++d)
      oracle::store(t.data, t.dtype, at + d * t.strides[3], value);
  }
};

Instance::Impl::Impl(const Case& shape, Input kind, std::uint64_t number)
    : c(shape), input(kind), seed(number), problem(tensors_of(shape, number)) {
  core::for_each_tensor(problem, [&](const core::TensorField& field, tessera_tensor& t) {
    if (t.rank == 0) return;
    if (c.latent && field.id == core::TensorId::value) {
      t.data = problem.key.data;
      return;
    }
    Buffer buffer(field.name, &t, c.layout == Layout::padded ? 1 : 0);
    const bool cache = field.id == core::TensorId::key || field.id == core::TensorId::value ||
                       field.id == core::TensorId::key_tail;
    if (c.append && cache) return caches.add(std::move(buffer));
    (field.written ? outputs : inputs).push_back(std::move(buffer));
  });
  const bool of_entries = by_entry(c);
  if (of_entries)
    sequences.fill_lengths(seed);
  else if (c.key_lengths)
    fill_lengths();
  if (c.page > 0) sequences.fill_table(seed);
  fill_head_floats();
  if (c.mask_shape != MaskShape::none) fill_mask();
  fill_rows();
  if (input == Input::dominant) make_dominant();
  if (c.priors > 0) sequences.fill_priors(seed, input == Input::equal);
  if (input == Input::nonfinite) make_nonfinite();
  if (of_entries) sequences.poison_unused();
  fill_rope(c, seed, problem);
  lift_new_rows(c, problem);
  caches.remember(problem);
  for (const Buffer& b : inputs) fingerprints.push_back(b.fingerprint());
}

void Instance::Impl::fill_lengths() {
  const Random lengths = random(kLengths);
  const std::int64_t turn = lengths.below(0, c.batch > 1 ? 4 : 8);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    // Of every four neighbours one is full, one empty (a single entry is so more rarely), two between.
    const std::int64_t which = (b + turn) % (c.batch > 1 ? 4 : 8);
    std::int64_t length = lengths.below(1 + static_cast<std::uint64_t>(b), c.keys + 1);
    if (which == 0) length = c.keys;
    if (which == 1) length = 0;
    if (problem.key_lengths.dtype == TESSERA_I64)
      static_cast<std::int64_t*>(problem.key_lengths.data)[b] = length;
    else
      static_cast<std::int32_t*>(problem.key_lengths.data)[b] = static_cast<std::int32_t>(length);
  }
}

void Instance::Impl::fill_head_floats() {
  if (c.alibi) {
    const std::int64_t count = problem.alibi_slopes.rank == 2 ? c.batch * c.heads : c.heads;
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t entry = n / c.heads, head = n % c.heads;
      static_cast<float*>(problem.alibi_slopes.data)[n] =
          0.5f / static_cast<float>(1 + head) + 0.01f * static_cast<float>(entry);
    }
  }
  if (c.sinks) {
    const Random sinks = random(kSinks);
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const auto index = static_cast<std::uint64_t>(h);
      const bool none = sinks.word(index + (1u << 20)) % 8 == 0;  // exp(-inf) = 0: a sink that is not there
      static_cast<float*>(problem.sinks.data)[h] = none ? -INFINITY : sinks.normal(index);
    }
  }
}

void Instance::Impl::fill_mask() {
  const MaskContents contents(c, input, seed);
  const tessera_tensor& t = problem.mask.tensor;
  const Buffer& mask =
      *std::find_if(inputs.begin(), inputs.end(), [&](const Buffer& b) { return b.tensor().data == t.data; });
  mask.for_each_element([&](std::int64_t e, std::int64_t at) {
    const MaskContents::Element element = contents(e);
    if (t.dtype == TESSERA_BOOL)
      static_cast<unsigned char*>(t.data)[at] = element.byte;
    else
      oracle::store(t.data, t.dtype, at, element.bias);
  });
}

void Instance::Impl::fill_rows() {
  double query_key_factor = 1;
  if (input == Input::large) {
    // The product of two factors puts the deviation of the scores at 1e4.
    const double per_unit = std::fabs(scale()) * std::sqrt(static_cast<double>(c.dim));
    query_key_factor = std::min(1000.0, std::sqrt(1e4 / per_unit));
  }
  const tessera_tensor none = TESSERA_TENSOR_NONE;
  const struct {
    const tessera_tensor &tensor, &scales;
    Stream stream;
    double factor;
  } parts[] = {{problem.query, problem.query_scales, kQuery, query_key_factor},
               {problem.key, problem.key_scales, kKey, query_key_factor},
               {problem.value, problem.value_scales, kValue, 1.0},
               {problem.key_tail, none, kKeyTail, query_key_factor}};
  for (const auto& part : parts) {
    if (part.tensor.rank == 0) continue;
    if (c.latent && part.stream == kValue) {  // the keys' codes, with scales of their own
      if (part.scales.rank > 0) fill_scales_of(part.tensor, part.scales, part.stream, part.factor);
      continue;
    }
    const Random draws = random(part.stream);
    if (is_code(part.tensor.dtype)) {
      fill_codes(part.tensor, part.scales, part.stream, part.factor);
    } else if (input == Input::equal) {
      fill_with(part.tensor, draws, [](std::int64_t, std::int64_t, double) { return 0.75; });
    } else if (input == Input::tiny) {
      // Rows in turn around the smallest normal number and well inside the subnormal ones.
      const double least = part.tensor.dtype == TESSERA_F16 ? 0x1p-14 : 0x1p-126;
      fill_with(part.tensor, draws, [=](std::int64_t row, std::int64_t, double draw) {
        return draw * least * (row % 2 == 0 ? 1 : 0x1p-5);
      });
    } else {
      fill_normal(part.tensor, draws, part.factor);
    }
  }
}

void Instance::Impl::fill_scales_of(const tessera_tensor& t, const tessera_tensor& scales, Stream stream,
                                    double factor) {
  const Random draws = random(static_cast<Stream>(kScales + stream - kQuery));
  // Nobody says that scales are positive. What is timed has normal inputs, and scales as quantisers make
  // them.
  const bool signs = input == Input::large || input == Input::nonfinite;
  fill_scales(scales, draws, t.dtype, factor, input == Input::equal, signs);
}

// Numbers as other dtypes have them, divided by their scales and rounded as a quantiser does; but tiny ones
// are tiny as codes.
void Instance::Impl::fill_codes(const tessera_tensor& t, const tessera_tensor& scales, Stream stream,
                                double factor) {
  if (scales.rank > 0) fill_scales_of(t, scales, stream, factor);
  const ScaleOf scale_of(t, scales, problem.scale_rows);
  const double least = t.dtype == TESSERA_F8E4M3 ? 0x1p-6 : t.dtype == TESSERA_I8 ? 1 : 0x1p-14;
  fill_with(t, random(stream), [&](std::int64_t row, std::int64_t column, double draw) {
    if (input == Input::tiny) return draw * least * (row % 2 == 0 ? 1 : 0.25);
    const double number = input == Input::equal ? 0.75 : factor * draw;
    return saturated(t.dtype, number / scale_of(row, column));
  });
}

// Queries share a direction of +-1, and one key per head points along it: its score is about 50.
void Instance::Impl::make_dominant() {
  const Random choices = random(kChoices);
  const auto along = [&](std::int64_t d) {
    return choices.word(1000 + static_cast<std::uint64_t>(d)) % 2 == 0 ? 1.0 : -1.0;
  };
  const ScaleOf query_scale(problem.query, problem.query_scales, problem.scale_rows);
  fill_with(problem.query, random(kQuery), [&](std::int64_t r, std::int64_t d, double draw) {
    return saturated(c.dtype, (along(d) + 0.25 * draw) / query_scale(r, d));
  });
  if (c.keys == 0) return;
  // At a scale of 0 no key can dominate; a long one would only overflow.
  const double per_unit = scale() * static_cast<double>(c.dim);
  const double length = per_unit == 0 ? 1.0 : std::clamp(50 / per_unit, -1000.0, 1000.0);
  const tessera_tensor& key = problem.key;
  const ScaleOf key_scale(key, problem.key_scales, problem.scale_rows);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.kv_heads; ++h) {
      const std::int64_t j = choices.below(100000 + static_cast<std::uint64_t>(b * c.kv_heads + h), c.keys);
      const std::int64_t at = sequences.key_at(key, b, h, j);
      const double scale = at < 0 ? 1 : key_scale(sequences.key_row(key, b, h, j), 0);
      for (std::int64_t d = 0; at >= 0 && d < c.key_dim(); ++d)
        oracle::store(key.data, key.dtype, at + d, saturated(key.dtype, length * along(d) / scale));
      const tessera_tensor& tail = problem.key_tail;
      for (std::int64_t d = 0; at >= 0 && d < c.tail; ++d)
        oracle::store(tail.data, tail.dtype, sequences.key_at(tail, b, h, j) + d,
                      length * along(c.key_dim() + d));
    }
  }
}

bool Instance::Impl::hidden_from_all(std::int64_t b, std::int64_t j) const {
  const Sequences::Span seen = sequences.seen(b);
  if (j < seen.begin || j >= seen.end) return true;
  if (c.mask_shape != MaskShape::keys && c.mask_shape != MaskShape::batch_keys) return false;
  const tessera_tensor& mask = problem.mask.tensor;
  const std::int64_t column = c.mask_last > 0 ? j - (sequences.key_length(b) - c.mask_last) : j;
  if (column < 0) return false;
  const bool shared = c.mask_shape == MaskShape::keys || c.ragged;
  const std::int64_t at = (shared ? 0 : b * mask.strides[0]) + column * mask.strides[mask.rank - 1];
  if (c.mask_type == MaskType::boolean) return static_cast<const unsigned char*>(mask.data)[at] == 0;
  return oracle::load(mask.data, mask.dtype, at) == -kInfinity;
}

// Only where tessera.h says what must come out. One thing is left alone: an infinite value whose weight may
// underflow in one precision only.
void Instance::Impl::make_nonfinite() {
  if (c.batch == 0 || c.keys == 0 || c.queries == 0) return;
  const Random choices = random(kChoices);
  const std::int64_t last_batch = c.batch - 1, last_head = c.kv_heads - 1;

  const bool gentle =
      !c.alibi && !c.mask_lowest && std::fabs(scale()) * std::sqrt(static_cast<double>(c.dim)) < 8;
  if (gentle) {
    const tessera_tensor& v = problem.value;
    const std::int64_t j = choices.below(200, c.keys), d = choices.below(201, c.value_dim);
    if (const std::int64_t at = sequences.key_at(v, 0, 0, j); at >= 0)
      oracle::store(v.data, v.dtype, at + d * v.strides[3],
                    choices.word(202) % 2 == 0 ? kInfinity : -kInfinity);
  }
  // One infinite component: the score is +inf for some queries (NaN row), -inf for others (no effect).
  const tessera_tensor& k = problem.key;
  const std::int64_t infinite = choices.below(203, c.keys), component = choices.below(204, c.dim);
  const bool in_tail = component >= c.key_dim();
  const tessera_tensor& has_it = in_tail ? problem.key_tail : k;
  // As a value too, which a capped score would give a weight.
  const bool capped_value = c.latent && c.softcap > 0 && !in_tail;
  if (const std::int64_t at = sequences.key_at(has_it, last_batch, last_head, infinite);
      at >= 0 && !capped_value)
    oracle::store(has_it.data, has_it.dtype, at + (in_tail ? component - c.key_dim() : component), kInfinity);
  // A key that the band or the mask hides from some queries, and not from others.
  const bool by_band = c.align != TESSERA_ALIGN_NONE && c.right != TESSERA_UNBOUNDED;
  const bool by_mask =
      c.mask_shape != MaskShape::none && c.mask_content != MaskContent::bias && !c.mask_lowest;
  if (by_band || by_mask)
    for (const tessera_tensor* t : key_parts()) set_row(*t, sequences.key_at(*t, 0, 0, c.keys - 1), kNan);
  const std::int64_t entry = choices.below(205, c.batch), row = choices.below(207, c.queries);
  if (row < sequences.rows_of(entry))
    set_row(problem.query, sequences.query_at(problem.query, entry, choices.below(206, c.heads), row), kNan);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t j = 0; j < c.keys; ++j) {
      if (!hidden_from_all(b, j)) continue;
      for (std::int64_t h = 0; h < c.kv_heads; ++h) {
        for (const tessera_tensor* t : key_parts())
          set_row(*t, sequences.key_at(*t, b, h, j), j % 2 == 0 ? kNan : kInfinity);
        set_row(problem.value, sequences.key_at(problem.value, b, h, j), j % 3 == 0 ? kInfinity : kNan);
      }
    }
  }
}

const std::vector<Input>& all_inputs() {
  static const std::vector<Input> list = [] {
    std::vector<Input> inputs;
    for (const InputName& n : kInputNames) inputs.push_back(n.input);
    return inputs;
  }();
  return list;
}

std::string_view name(Input input) {
  for (const InputName& n : kInputNames) {
    if (n.input == input) return n.name;
  }
  return "unknown";
}

std::optional<Input> parse_input(std::string_view text) {
  for (const InputName& n : kInputNames) {
    if (n.name == text) return n.input;
  }
  return std::nullopt;
}

bool differs_from_normal(const Case& c, Input input) {
  if (input == Input::hidden) return c.mask_shape != MaskShape::none;
  return input != Input::normal;
}

Instance::Instance(const Case& c, Input input, std::uint64_t seed)
    : impl_(std::make_unique<Impl>(c, input, seed)) {}
Instance::~Instance() = default;
Instance::Instance(Instance&&) noexcept = default;
Instance& Instance::operator=(Instance&&) noexcept = default;

const Case& Instance::shape() const { return impl_->c; }
Input Instance::input() const { return impl_->input; }
std::uint64_t Instance::seed() const { return impl_->seed; }
const tessera_attention& Instance::problem() const { return impl_->problem; }
tessera_attention& Instance::problem() { return impl_->problem; }

void Instance::poison_outputs() {
  for (Buffer& b : impl_->outputs) b.poison();
  impl_->caches.restore();
}

std::string Instance::damage() const {
  for (std::size_t n = 0; n < impl_->inputs.size(); ++n) {
    const Buffer& b = impl_->inputs[n];
    if (b.fingerprint() != impl_->fingerprints[n])
      return fmt::format("{}, an input, was written to", b.name());
  }
  for (const Buffer& b : impl_->outputs) {
    if (b.written_outside())
      return fmt::format("memory around or between the elements of {} was written to", b.name());
  }
  return "";
}

std::string Instance::misplaced() const { return impl_->caches.mistake(impl_->problem); }

std::string Instance::unwritten() const {
  for (const Buffer& b : impl_->outputs) {
    if (impl_->problem.lse.data == nullptr && b.name() == "lse") continue;
    const std::int64_t e = b.first_poisoned();
    if (e >= 0) return fmt::format("element {} of {} was never written", e, b.name());
  }
  return "";
}

void Instance::accept_inputs() {
  impl_->mirror.reset();
  for (std::size_t n = 0; n < impl_->inputs.size(); ++n)
    impl_->fingerprints[n] = impl_->inputs[n].fingerprint();
  impl_->caches.remember(impl_->problem);
}

std::vector<double> Instance::output() const {
  std::vector<double> out;
  const tessera_tensor& t = impl_->outputs[0].tensor();
  impl_->outputs[0].for_each_element(
      [&](std::int64_t, std::int64_t at) { out.push_back(oracle::load(t.data, t.dtype, at)); });
  return out;
}

std::vector<double> Instance::lse() const {
  std::vector<double> out;
  const tessera_tensor& t = impl_->outputs[1].tensor();
  impl_->outputs[1].for_each_element(
      [&](std::int64_t, std::int64_t at) { out.push_back(oracle::load(t.data, t.dtype, at)); });
  return out;
}

std::vector<std::vector<unsigned char>> Instance::poisoned() const {
  std::vector<std::vector<unsigned char>> out;
  for (const Buffer& b : impl_->outputs) {
    out.emplace_back(b.bytes());
    write_poison(out.back().data(), b.tensor().dtype, b.bytes() / tessera_dtype_size(b.tensor().dtype));
  }
  for (const std::vector<unsigned char>& bytes : impl_->caches.before()) out.push_back(bytes);
  return out;
}

core::Status Instance::mirror(int gpu, Mirror** out) {
  if (!impl_->mirror || impl_->mirror->gpu() != gpu) {
    std::vector<Mirror::Region> regions;
    for (const Buffer& b : impl_->inputs)
      regions.push_back({std::string(b.name()), b.memory(), b.bytes(), false});
    for (const Buffer& b : impl_->outputs)
      regions.push_back({std::string(b.name()), b.memory(), b.bytes(), true});
    for (const Buffer& b : impl_->caches.buffers())
      regions.push_back({std::string(b.name()), b.memory(), b.bytes(), true});
    if (core::Status s = Mirror::make(gpu, std::move(regions), &impl_->mirror); !s.ok()) return s;
  }
  *out = impl_->mirror.get();
  return {};
}

std::vector<unsigned char> Instance::output_bytes() const {
  std::vector<unsigned char> out;
  for (const Buffer& b : impl_->outputs) b.append_elements(&out);
  return out;
}

}  // namespace tessera::cases
