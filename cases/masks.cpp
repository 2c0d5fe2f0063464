// See masks.hpp.
#include "cases/masks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "cases/sequences.hpp"

namespace tessera::cases {
namespace {

constexpr MaskDims kMaskDims[] = {
    {"none", MaskShape::none, {false, false, false, false}, 0},
    {"full", MaskShape::full, {true, true, true, true}, 4},
    {"keys", MaskShape::keys, {false, false, false, true}, 1},
    {"queries", MaskShape::queries, {false, false, true, false}, 2},
    {"queries-keys", MaskShape::queries_keys, {false, false, true, true}, 2},
    {"heads-keys", MaskShape::heads_keys, {false, true, false, true}, 3},
    {"heads-queries-keys", MaskShape::heads_queries_keys, {false, true, true, true}, 3},
    {"batch-keys", MaskShape::batch_keys, {true, false, false, true}, 4},
    {"batch-queries-keys", MaskShape::batch_queries_keys, {true, false, true, true}, 4},
};

struct MaskContentName {
  MaskContent content;
  std::string_view name;
  bool has_size;
};
constexpr MaskContentName kContentNames[] = {
    {MaskContent::documents, "documents", true}, {MaskContent::blocks, "blocks", true},
    {MaskContent::tiles, "tiles", true},         {MaskContent::padding, "padding", false},
    {MaskContent::bias, "bias", false},
};

struct MaskTypeName {
  std::string_view name;
  MaskType type;
  tessera_dtype dtype;
};
constexpr MaskTypeName kTypeNames[] = {
    {"boolean", MaskType::boolean, 0},
    {"additive", MaskType::additive, 0},
    {"additive-f32", MaskType::additive, TESSERA_F32},
    {"additive-f16", MaskType::additive, TESSERA_F16},
    {"additive-bf16", MaskType::additive, TESSERA_BF16},
};

// Rows of documents and blocks are counted one by one.
constexpr std::int64_t kMostRowsCounted = std::int64_t{1} << 24;

bool by_position(MaskContent content) {
  return content == MaskContent::documents || content == MaskContent::blocks;
}

// One part of the word behind the type: a shape, a content or "lowest".
bool read_part(std::string_view part, Case* c) {
  const auto number = [](std::string_view text, std::int64_t* out) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return error == std::errc() && stop == text.data() + text.size() && *out > 0;
  };
  if (part == "lowest") return c->mask_lowest = true;
  if (part.starts_with("last")) return number(part.substr(4), &c->mask_last) && c->mask_last < (1 << 24);
  for (const MaskDims& dims : kMaskDims)
    if (dims.name == part && dims.rank > 0) return c->mask_shape = dims.shape, true;
  for (const MaskContentName& each : kContentNames) {
    if (!part.starts_with(each.name)) continue;
    c->mask_content = each.content;
    const std::string_view size = part.substr(each.name.size());
    if (!each.has_size) return size.empty();
    return number(size, &c->mask_block);
  }
  return false;
}

// What the parts of a word do not say of each other.
std::string disagreement(const Case& c) {
  const bool* real = mask_dims(c.mask_shape).real;
  if (c.mask_type == MaskType::boolean && (c.mask_lowest || c.mask_content == MaskContent::bias))
    return "bias and lowest are for additive masks";
  if (c.mask_lowest && c.mask_content == MaskContent::bias)
    return "a bias hides nothing, so nothing is lowest";
  if (c.mask_content == MaskContent::padding && !real[3]) return "padding needs a mask with keys";
  if (c.mask_last > 0 && !real[3]) return "last needs a mask with keys";
  const bool placed = by_position(c.mask_content) || c.mask_content == MaskContent::padding;
  if (placed && (c.mask_last > 0 || by_entry(c)))
    return "documents, blocks and padding need a dense batch, and all of its keys";
  if (c.mask_block > 0 && !(real[2] && real[3]))
    return "documents, blocks and tiles need a mask with queries and keys";
  if (by_position(c.mask_content) && c.queries > kMostRowsCounted)
    return fmt::format("documents and blocks take at most {} queries", kMostRowsCounted);
  return "";
}

// What hides a key in an additive mask.
double hiding_value(const Case& c, std::uint64_t seed) {
  if (!c.mask_lowest) return -std::numeric_limits<double>::infinity();
  const tessera_dtype dtype = mask_dtype(c, seed);
  if (dtype == TESSERA_F16) return -65504;
  if (dtype == TESSERA_BF16) return -0x1.fep127;
  return static_cast<double>(std::numeric_limits<float>::lowest());
}

}  // namespace

const MaskDims& mask_dims(MaskShape shape) {
  return *std::find_if(std::begin(kMaskDims), std::end(kMaskDims),
                       [&](const MaskDims& dims) { return dims.shape == shape; });
}

std::int64_t mask_size(const Case& c, int d) {
  const std::int64_t columns = c.mask_last > 0 ? c.mask_last : key_capacity(c);
  const std::int64_t full[4] = {tensor_entries(c), c.heads, tensor_rows(c), columns};
  return mask_dims(c.mask_shape).real[d] ? full[d] : 1;
}

double mask_elements(const Case& c) {
  if (c.mask_shape == MaskShape::none) return 0;
  double product = 1;
  for (int d = 0; d < 4; ++d) product *= static_cast<double>(mask_size(c, d));
  return product;
}

tessera_dtype mask_dtype(const Case& c, std::uint64_t seed) {
  if (c.mask_type == MaskType::boolean) return TESSERA_BOOL;
  if (c.mask_dtype != 0) return c.mask_dtype;
  const tessera_dtype floats[] = {TESSERA_F32, TESSERA_F16, TESSERA_BF16, usual_output(c)};
  return floats[Random(seed, kChoices).word(2) % 4];
}

std::string mask_words(const Case& c) {
  if (c.mask_shape == MaskShape::none) return "";
  std::string out = " mask=";
  for (const MaskTypeName& each : kTypeNames)
    if (each.type == c.mask_type && each.dtype == c.mask_dtype) out += each.name;
  if (c.mask_shape != MaskShape::full) out += fmt::format(":{}", mask_dims(c.mask_shape).name);
  for (const MaskContentName& each : kContentNames) {
    if (each.content != c.mask_content) continue;
    out += fmt::format(":{}", each.name);
    if (each.has_size) out += fmt::format("{}", c.mask_block);
  }
  if (c.mask_last > 0) out += fmt::format(":last{}", c.mask_last);
  return c.mask_lowest ? out + ":lowest" : out;
}

std::string read_mask(std::string_view word, std::string_view value, Case* c) {
  const std::size_t colon = std::min(value.find(':'), value.size());
  const auto* type =
      std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                   [&](const MaskTypeName& each) { return each.name == value.substr(0, colon); });
  bool known = type != std::end(kTypeNames);
  c->mask_shape = MaskShape::full;
  c->mask_content = MaskContent::random;
  c->mask_block = 0;
  c->mask_lowest = false;
  c->mask_last = 0;
  for (std::size_t at = colon; known && at < value.size();) {
    const std::size_t end = std::min(value.find(':', at + 1), value.size());
    known = read_part(value.substr(at + 1, end - at - 1), c);
    at = end;
  }
  if (!known) {
    std::string shapes;
    for (const MaskDims& dims : kMaskDims)
      if (dims.rank > 0) shapes += fmt::format(" :{}", dims.name);
    return fmt::format(
        "'{}' : mask must be boolean, additive or additive- with f32, f16 or bf16, then optionally a "
        "shape ({}), "
        "what it holds (:documentsN, :blocksN, :tilesN, :padding, :bias), :lastN and :lowest",
        word, shapes.substr(1));
  }
  c->mask_type = type->type;
  c->mask_dtype = type->dtype;
  return "";
}

std::string check_mask(const Case& c) {
  if (c.mask_shape == MaskShape::none) return "";
  const std::string why = disagreement(c);
  return why.empty() ? "" : fmt::format("'{}' : {}", mask_words(c).substr(1), why);
}

std::optional<double> masked_pairs(const Case& c) {
  if (c.mask_shape == MaskShape::none || !by_position(c.mask_content)) return std::nullopt;
  const std::int64_t to_the_end = c.keys - c.queries;
  double pairs = 0;
  for (std::int64_t i = 0; i < c.queries; ++i) {
    std::int64_t begin = 0, end = c.keys;
    if (c.align != TESSERA_ALIGN_NONE) {
      const std::int64_t at = c.align == TESSERA_ALIGN_BOTTOM_RIGHT ? i + to_the_end : i;
      if (c.left != TESSERA_UNBOUNDED) begin = std::max(begin, at - c.left);
      if (c.right != TESSERA_UNBOUNDED) end = std::min(end, at + c.right + 1);
    }
    const std::int64_t at = i + to_the_end;
    begin = std::max(begin, at < 0 ? c.keys : at / c.mask_block * c.mask_block);
    end = std::min(
        end, c.mask_content == MaskContent::documents ? at + 1 : (at / c.mask_block + 1) * c.mask_block);
    pairs += static_cast<double>(std::max<std::int64_t>(end - begin, 0));
  }
  return pairs;
}

MaskContents::MaskContents(const Case& c, Input input, std::uint64_t seed)
    : case_(c),
      input_(input),
      draws_(seed, kMask),
      rows_(seed, kHiddenRow),
      queries_(mask_size(c, 2)),
      keys_(mask_size(c, 3)),
      rows_per_entry_(mask_size(c, 1) * queries_),
      hides_(hiding_value(c, seed)) {}

std::int64_t MaskContents::padded_length(std::int64_t entry) const {
  // Of every four neighbours one is full; the others have a quarter of the keys or more.
  if (entry % 4 == 0) return keys_;
  return keys_ - draws_.below(static_cast<std::uint64_t>(entry), keys_ * 3 / 4 + 1);
}

bool MaskContents::hidden_tile(std::uint64_t noise, std::int64_t plane, std::int64_t query,
                               std::int64_t key) const {
  const std::int64_t side = case_.mask_block;
  const std::int64_t down = (queries_ + side - 1) / side, across = (keys_ + side - 1) / side;
  const std::int64_t row_of_tiles = plane * down + query / side;
  if (rows_.word(static_cast<std::uint64_t>(row_of_tiles) + (1u << 30)) % 4 == 0) return true;
  switch (rows_.word(static_cast<std::uint64_t>(row_of_tiles * across + key / side) + (1u << 31)) % 3) {
    case 0:
      return true;
    case 1:
      return false;
    default:
      return noise % 2 == 0;
  }
}

bool MaskContents::hidden(std::uint64_t noise, std::int64_t row, std::int64_t query, std::int64_t key) const {
  switch (case_.mask_content) {
    case MaskContent::random:
      return noise % 8 == 0;
    case MaskContent::documents:
    case MaskContent::blocks: {
      // Queries stand at the end of the keys, as in a chunk of a prompt; those before the first see nothing.
      const std::int64_t at = query + case_.keys - case_.queries;
      if (at < 0 || at / case_.mask_block != key / case_.mask_block) return true;
      return case_.mask_content == MaskContent::documents && key > at;
    }
    case MaskContent::tiles:
      return hidden_tile(noise, row / queries_, query, key);
    case MaskContent::padding:
      return key >= padded_length(row / rows_per_entry_);
    case MaskContent::bias:
      return false;
  }
  return false;
}

MaskContents::Element MaskContents::operator()(std::int64_t e) const {
  const std::int64_t row = keys_ == 0 ? 0 : e / keys_, key = keys_ == 0 ? 0 : e % keys_;
  const std::uint64_t noise = draws_.word(static_cast<std::uint64_t>(e));
  Element out{hidden(noise, row, row % std::max<std::int64_t>(queries_, 1), key), 0, 0};
  if (input_ == Input::hidden) {
    // A quarter of the mask's rows hide every key. A mask of one row hides half of its keys.
    const bool one_row = case_.mask_shape == MaskShape::keys;
    out.hidden |= one_row ? noise % 2 == 0 : rows_.word(static_cast<std::uint64_t>(row)) % 4 == 0;
  }
  if (!out.hidden) out.byte = static_cast<unsigned char>(1 + (noise >> 8) % 255);
  // Masks of documents and padding are 0 where they do not hide, as models write them.
  const bool zero =
      case_.mask_content == MaskContent::documents || case_.mask_content == MaskContent::padding;
  out.bias = out.hidden ? hides_ : zero ? 0.0 : static_cast<double>(normal_table()[noise >> 48]);
  return out;
}

}  // namespace tessera::cases
