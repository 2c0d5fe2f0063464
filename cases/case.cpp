// Words to case and back, and the arithmetic of a case.
#include "cases/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "cases/append.hpp"
#include "cases/codes.hpp"
#include "cases/masks.hpp"
#include "cases/sequences.hpp"
#include "cases/tensors.hpp"
#include "core/plan.hpp"

namespace tessera::cases {
namespace {

// No tensor of a case may hold more elements than this: words come from people, and a slip of the
// keyboard should give a sentence, not an allocation of a terabyte.
constexpr double kMaxElements = 8589934592.0;  // 2^33
constexpr std::int64_t kMaxSize = std::int64_t{1} << 32;

struct LayoutName {
  Layout layout;
  std::string_view name;
};
constexpr LayoutName kLayouts[] = {
    {Layout::bhsd, "bhsd"}, {Layout::bshd, "bshd"}, {Layout::padded, "padded"}, {Layout::aligned, "aligned"}};

std::string_view align_name(tessera_align align) {
  return align == TESSERA_ALIGN_TOP_LEFT ? "top-left" : "bottom-right";
}

tessera_dtype input_dtype(std::string_view name) {
  for (const tessera_dtype dtype : {TESSERA_F32, TESSERA_F16, TESSERA_BF16, TESSERA_F8E4M3, TESSERA_F8E5M2})
    if (name == tessera_dtype_name(dtype)) return dtype;
  return 0;
}

double elements(std::initializer_list<std::int64_t> sizes) {
  double product = 1;
  for (std::int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}

// One line of words being read. Every member returns a sentence, empty if all is well.
class Reader {
 public:
  explicit Reader(Case* c, bool from_list) : case_(c), from_list_(from_list) {}

  std::string word(std::string_view w) {
    const std::size_t equals = w.find('=');
    const bool is_number = w.size() > 1 && std::string_view("bhqkdv").find(w[0]) != std::string_view::npos &&
                           std::string_view("0123456789-+.").find(w[1]) != std::string_view::npos;
    const bool is_dtype = input_dtype(w) != 0;
    std::string kind(equals != std::string_view::npos ? w.substr(0, equals) : is_number ? w.substr(0, 1) : w);
    if (is_dtype) kind = "dtype";
    if (!seen_.insert(kind).second) return fmt::format("'{}' : {} is given twice", w, kind);
    if (equals != std::string_view::npos) return option(w, kind, w.substr(equals + 1));
    if (is_number) return size(w);
    if (is_dtype) {
      case_->dtype = input_dtype(w);
      return "";
    }
    if (w == "lengths") return case_->key_lengths = true, "";
    if (w == "alibi") return case_->alibi = true, "";
    if (w == "sinks") return case_->sinks = true, "";
    if (w == "ragged") return case_->ragged = true, "";
    if (w == "packed") return case_->packed = true, "";
    if (w == "transposed") return case_->transposed = true, "";
    if (w == "append") return case_->append = true, "";
    if (w == "latent") return case_->latent = true, "";
    if (w == "positions") return case_->positions = true, "";
    return fmt::format(
        "'{}' : not a case name and not one of b h q k d v (each with a number), f32, f16, bf16, f8e4m3, "
        "f8e5m2, causal=, align=, window=, scale=, softcap=, mask=, lengths, alibi, sinks, layout=, ragged, "
        "packed, pages=, prior=, out=, cache=, scales=, transposed, precision=, append, rope=, positions, "
        "latent, tail=",
        w);
  }

  // What one word alone cannot decide.
  std::string finish() {
    Case& c = *case_;
    if (!from_list_) {
      if (!seen_.contains("k")) c.keys = c.queries;
      if (!seen_.contains("v")) c.value_dim = c.dim;
    }
    if (seen_.contains("causal") && seen_.contains("align")) {
      return "causal= and align= : give one of them; causal= already says the alignment";
    }
    if (seen_.contains("causal")) {
      if (seen_.contains("window") && c.right != 0) {
        return fmt::format("window={},{} : with causal= the right side must be 0", side(c.left),
                           side(c.right));
      }
      c.right = 0;
      if (!seen_.contains("window")) c.left = TESSERA_UNBOUNDED;
    }
    if (c.align == TESSERA_ALIGN_NONE && (c.left != TESSERA_UNBOUNDED || c.right != TESSERA_UNBOUNDED)) {
      return "window= : needs an alignment, causal= or align= with top-left or bottom-right";
    }
    if (c.alibi && c.align == TESSERA_ALIGN_NONE && (c.queries != c.keys || c.key_lengths || by_entry(c))) {
      return "alibi : needs causal= or align= with top-left or bottom-right, since distances from query to "
             "key "
             "depend on it here";
    }
    if (std::string why = check_mask(c); !why.empty()) return why;
    if (std::string why = check_sequences(c); !why.empty()) return why;
    if (std::string why = check_codes(c); !why.empty()) return why;
    if (std::string why = check_append(c); !why.empty()) return why;
    // What the output is anyway needs no word.
    if (c.output_dtype == usual_output(c)) c.output_dtype = 0;
    return too_large();
  }

  static std::string side(std::int64_t reach) {
    return reach == TESSERA_UNBOUNDED ? "inf" : fmt::format("{}", reach);
  }

 private:
  template <class T>
  static bool number(std::string_view text, T* out) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, *out);
    return error == std::errc() && stop == end;
  }

  std::string size(std::string_view w) {
    Case& c = *case_;
    if (w[0] == 'h') return heads(w);
    struct Field {
      char letter;
      std::int64_t* value;
      std::int64_t least, most;
      const char* what;
    };
    const Field fields[] = {
        {'b', &c.batch, 0, kMaxSize, "batch"},
        {'q', &c.queries, 0, kMaxSize, "queries"},
        {'k', &c.keys, 0, kMaxSize, "keys"},
        {'d', &c.dim, 1, TESSERA_MAX_HEAD_DIM, "dim"},
        {'v', &c.value_dim, 1, TESSERA_MAX_HEAD_DIM, "value dim"},
    };
    const Field& f = *std::find_if(std::begin(fields), std::end(fields),
                                   [&](const Field& field) { return field.letter == w[0]; });
    if (!number(w.substr(1), f.value)) return fmt::format("'{}' : {} must be a whole number", w, f.what);
    if (*f.value < f.least) return fmt::format("'{}' : {} must be {} or more", w, f.what, f.least);
    if (*f.value > f.most) return fmt::format("'{}' : {} must be {} or less", w, f.what, f.most);
    return "";
  }

  std::string heads(std::string_view w) {
    Case& c = *case_;
    const std::size_t slash = w.find('/');
    const std::string_view query = w.substr(1, slash == std::string_view::npos ? slash : slash - 1);
    const std::string_view kv = slash == std::string_view::npos ? query : w.substr(slash + 1);
    if (!number(query, &c.heads) || !number(kv, &c.kv_heads)) {
      return fmt::format("'{}' : heads must be a whole number, or query heads/key heads as in h8/2", w);
    }
    if (c.heads < 1 || c.kv_heads < 1 || c.heads > kMaxSize) {
      return fmt::format("'{}' : heads must be between 1 and {}", w, kMaxSize);
    }
    if (c.heads % c.kv_heads != 0) {
      return fmt::format("'{}' : query heads must be a multiple of key heads", w);
    }
    return "";
  }

  std::string option(std::string_view w, std::string_view kind, std::string_view value) {
    Case& c = *case_;
    if (kind == "causal" || kind == "align") {
      if (value != "top-left" && value != "bottom-right") {
        return fmt::format("'{}' : {} must be top-left or bottom-right", w, kind);
      }
      c.align = value == "top-left" ? TESSERA_ALIGN_TOP_LEFT : TESSERA_ALIGN_BOTTOM_RIGHT;
      return "";
    }
    if (kind == "window") return window(w, value);
    if (kind == "mask") return read_mask(w, value, case_);
    if (kind == "pages" || kind == "prior" || kind == "tail") {
      std::int64_t* field = kind == "pages" ? &c.page : kind == "prior" ? &c.priors : &c.tail;
      if (number(value, field) && *field >= 1 && *field <= kMaxSize) return "";
      return fmt::format("'{}' : {} must be a whole number of 1 or more", w, kind);
    }
    if (kind == "out") {
      if (value != "f32" && value != "f16" && value != "bf16")
        return fmt::format("'{}' : out must be f32, or of 8-bit inputs also f16 or bf16", w);
      return c.output_dtype = input_dtype(value), "";
    }
    if (kind == "cache") return read_cache(w, value, case_);
    if (kind == "scales") return read_scales(w, value, case_);
    if (kind == "rope") return read_rope(w, value, case_);
    if (kind == "precision") {
      if (value != "fast" && value != "accurate")
        return fmt::format("'{}' : precision must be accurate or fast", w);
      return c.fast = value == "fast", "";
    }
    if (kind == "scale" || kind == "softcap") {
      float* field = kind == "scale" ? &c.scale : &c.softcap;
      if (!number(value, field) || !std::isfinite(*field)) {
        return fmt::format("'{}' : {} must be a finite number", w, kind);
      }
      if (kind == "scale" && *field == 0) *field = TESSERA_SCALE_ZERO;  // "scale=0" does not mean the default
      if (kind == "softcap" && *field < 0) return fmt::format("'{}' : softcap must be 0 or more", w);
      return "";
    }
    if (kind == "layout") {
      for (const LayoutName& each : kLayouts) {
        if (each.name != value) continue;
        c.layout = each.layout;
        return "";
      }
      return fmt::format("'{}' : layout must be bhsd, bshd, padded or aligned", w);
    }
    return fmt::format(
        "'{}' : no option {}=; there are causal=, align=, window=, scale=, softcap=, mask=, layout=, pages=, "
        "prior=, out=, cache=, scales=, precision=, rope=, tail=",
        w, kind);
  }

  std::string window(std::string_view w, std::string_view value) {
    const std::size_t comma = value.find(',');
    const auto reach = [](std::string_view text, std::int64_t* out) {
      if (text == "inf") return *out = TESSERA_UNBOUNDED, true;
      return number(text, out) && *out >= 0;
    };
    if (comma == std::string_view::npos || !reach(value.substr(0, comma), &case_->left) ||
        !reach(value.substr(comma + 1), &case_->right)) {
      return fmt::format("'{}' : window must be left,right with each side 0 or more, or inf", w);
    }
    return "";
  }

  std::string too_large() const {
    const Case& c = *case_;
    const std::int64_t wide = std::max(c.dim, c.value_dim);
    const std::int64_t parts = std::max<std::int64_t>(c.priors, 1);
    double most = std::max({elements({parts, c.batch, c.heads, c.queries, wide}),
                            elements({c.batch, c.kv_heads, c.keys, wide}), mask_elements(c)});
    // The table may have a page for each entry that is mostly empty.
    if (c.page > 0) most = std::max(most, elements({c.batch + 2, c.kv_heads, c.keys + c.page, wide}));
    if (most <= kMaxElements) return "";
    return fmt::format("a tensor of this case would hold {:.3g} elements; at most {:.3g} are accepted", most,
                       kMaxElements);
  }

  Case* case_;
  bool from_list_;
  std::set<std::string> seen_;
};

}  // namespace

std::string words(const Case& c) {
  std::string out = fmt::format("b{} h{}", c.batch, c.heads);
  if (c.kv_heads != c.heads) out += fmt::format("/{}", c.kv_heads);
  out +=
      fmt::format(" q{} k{} d{} v{} {}", c.queries, c.keys, c.dim, c.value_dim, tessera_dtype_name(c.dtype));
  if (c.align != TESSERA_ALIGN_NONE) {
    out += fmt::format(" {}={}", c.right == 0 ? "causal" : "align", align_name(c.align));
    if (c.left != TESSERA_UNBOUNDED || c.right > 0) {
      out += fmt::format(" window={},{}", Reader::side(c.left), Reader::side(c.right));
    }
  }
  if (c.scale != 0) out += fmt::format(" scale={}", c.scale == TESSERA_SCALE_ZERO ? 0.0f : c.scale);
  if (c.softcap != 0) out += fmt::format(" softcap={}", c.softcap);
  out += mask_words(c);
  if (c.key_lengths) out += " lengths";
  if (c.alibi) out += " alibi";
  if (c.sinks) out += " sinks";
  for (const LayoutName& each : kLayouts) {
    if (each.layout == c.layout && c.layout != Layout::bhsd) out += fmt::format(" layout={}", each.name);
  }
  return out + sequence_words(c) + codes_words(c) + append_words(c);
}

std::optional<Case> parse(std::string_view text, std::string* error) {
  std::vector<std::string_view> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = text.find_first_not_of(" \t", at);
    if (start == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t", start), text.size());
    tokens.push_back(text.substr(start, end - start));
    at = end;
  }
  if (tokens.empty()) {
    *error = "the case is empty; give a name from the list or words as in 'b2 h8 q256 k256 d64 f16'";
    return std::nullopt;
  }

  Case c;
  std::optional<Case> named = find(tokens[0]);
  if (named && tokens.size() == 1) return named;
  if (named) c = *named;
  Reader reader(&c, named.has_value());
  for (std::size_t t = named ? 1 : 0; t < tokens.size(); ++t) {
    if (std::string sentence = reader.word(tokens[t]); !sentence.empty()) {
      *error = std::move(sentence);
      return std::nullopt;
    }
  }
  if (std::string sentence = reader.finish(); !sentence.empty()) {
    *error = std::move(sentence);
    return std::nullopt;
  }
  c.name = words(c);
  c.group.clear();
  return c;
}

std::vector<Case> in_group(std::string_view group) {
  std::vector<Case> out;
  for (const Case& c : named()) {
    if (c.group == group) out.push_back(c);
  }
  return out;
}

Work work(const Case& c) {
  core::Problem problem;
  if (!validated(c, &problem).ok()) return {};
  if (c.page > 0) problem.keys = c.keys;  // of the last page's rows not all are keys
  core::Cost cost = core::cost(problem);
  if (c.latent) {  // one read brings both: what values add beside output and prior results is not there
    core::Problem keys_alone = problem;
    keys_alone.value_dim = 0;
    const auto rows = static_cast<double>(problem.heads * problem.all_rows() * problem.value_dim);
    cost.bytes = core::cost(keys_alone).bytes +
                 rows * static_cast<double>(core::dtype_size(problem.output.dtype)) +
                 rows * static_cast<double>(problem.prior.parts * core::dtype_size(problem.prior.dtype));
  }
  const std::optional<double> pairs = masked_pairs(c);
  if (!pairs) return {cost.flops, cost.bytes};
  return {2 * *pairs * static_cast<double>(c.batch * c.heads) * static_cast<double>(c.dim + c.value_dim),
          cost.bytes};
}

}  // namespace tessera::cases
