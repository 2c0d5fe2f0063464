// New keys and values, rope and positions of `tessera attend`.
#include <array>
#include <cstring>

#include "cli/attend_inputs.hpp"
#include "cli/common.hpp"

namespace tessera::cli {
namespace {

using files::Tensor;

// Memory of its own: files are read-only.
void make_writable(Tensor* tensor, tessera_tensor* view) {
  Tensor copy = allocate(tensor->element, tensor->shape, tensor->source);
  if (!tensor->bytes.empty())
    std::memcpy(const_cast<std::byte*>(copy.bytes.data()), tensor->bytes.data(), tensor->bytes.size());
  *tensor = std::move(copy);
  view->data = const_cast<std::byte*>(tensor->bytes.data());
}

void read_new_rows(const AttendFlags& flags, AttendProblem* p) {
  const bool rows_before_heads = flags.layout == "bshd";
  if (!flags.new_value.empty()) {
    p->new_value =
        load_rows(flags.new_value, std::array<std::string_view, 3>{"new_value", "new_v", "v"}, flags);
    p->problem.new_value = view_4d(p->new_value, rows_before_heads);
  }
  if (flags.new_key.empty()) {
    if (!flags.key_output.empty() || !flags.value_output.empty() || !flags.key_tail_output.empty())
      usage_error(
          "--key-output, --value-output and --key-tail-output need --new-key: nothing is stored without");
    return;
  }
  p->new_key = load_rows(flags.new_key, std::array<std::string_view, 3>{"new_key", "new_k", "k"}, flags);
  p->problem.new_key = view_4d(p->new_key, rows_before_heads);
  make_writable(&p->key, &p->problem.key);
  if (p->key_tail.owner) make_writable(&p->key_tail, &p->problem.key_tail);
  if (flags.new_value.empty() && p->value.source == p->key.source) {  // values lie in the keys
    p->value = p->key;
    p->problem.value.data = p->problem.key.data;
  } else {
    make_writable(&p->value, &p->problem.value);
  }
}

}  // namespace

void read_append(const AttendFlags& flags, AttendProblem* p) {
  read_new_rows(flags, p);
  if (!flags.rope_cos.empty()) {
    p->rope_cos = load_f32(flags.rope_cos, std::array<std::string_view, 2>{"cos", "rope_cos"}, flags);
    p->problem.rope.cos = view(p->rope_cos, "a table of cosines", 2);
  }
  if (!flags.rope_sin.empty()) {
    p->rope_sin = load_f32(flags.rope_sin, std::array<std::string_view, 2>{"sin", "rope_sin"}, flags);
    p->problem.rope.sin = view(p->rope_sin, "a table of sines", 2);
  }
  p->problem.rope.interleaved = flags.rope_interleaved ? 1 : 0;
  p->problem.rope.first = flags.rope_first;
  if (flags.positions.empty()) return;
  p->positions = load_whole(flags.positions, std::array<std::string_view, 2>{"positions", "position_ids"});
  p->problem.positions = view(p->positions, "a list of positions", 2);
}

}  // namespace tessera::cli
