#include "core/tensor_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/problem.hpp"

namespace tessera::core {
namespace {

std::string describe_dtype(tessera_dtype dtype) {
  const char* name = dtype_name(dtype);
  return name != nullptr ? std::string(name) : fmt::format("{} (unknown)", dtype);
}

Status check_rank(std::string_view name, const TensorRule& rule, const tessera_tensor& tensor) {
  if (tensor.rank >= rule.min_rank && tensor.rank <= rule.max_rank) return {};
  const std::string accepted = rule.min_rank == rule.max_rank
                                   ? fmt::format("rank {}", rule.min_rank)
                                   : fmt::format("a rank from {} to {}", rule.min_rank, rule.max_rank);
  return invalid(fmt::format("{}.rank is {}; {} {} needs {}", name, tensor.rank, name, rule.shape, accepted));
}

Status check_dtype(std::string_view name, const TensorRule& rule, const tessera_tensor& tensor) {
  if (std::find(rule.dtypes.begin(), rule.dtypes.end(), tensor.dtype) != rule.dtypes.end()) return {};
  std::string accepted;
  for (tessera_dtype dtype : rule.dtypes) {
    if (!accepted.empty()) accepted += ", ";
    accepted += dtype_name(dtype);
  }
  return invalid(fmt::format("{}.dtype is {}; accepted: {}", name, describe_dtype(tensor.dtype), accepted));
}

Status check_sizes(std::string_view name, const TensorRule& rule, const tessera_tensor& tensor) {
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.shape[d] < 0) {
      return invalid(fmt::format("{}.shape[{}] is {}; sizes are 0 or more", name, d, tensor.shape[d]));
    }
    if (tensor.strides[d] < 0) {
      return invalid(fmt::format("{}.strides[{}] is {}; strides are 0 or more", name, d, tensor.strides[d]));
    }
  }
  const int last = tensor.rank - 1;
  const bool scattered =
      rule.last_dim_contiguous && last >= 0 && tensor.shape[last] > 1 && tensor.strides[last] != 1;
  if (scattered && rule.transposed_8_bit && is_8_bit(tensor.dtype)) {
    const bool rows_contiguous = tensor.shape[last - 1] <= 1 || tensor.strides[last - 1] == 1;
    const bool empty = std::find(tensor.shape, tensor.shape + tensor.rank, 0) != tensor.shape + tensor.rank;
    if (rows_contiguous && (tensor.strides[last] >= 1 || empty)) return {};
    return invalid(fmt::format(
        "{}.strides[{}] is {} and {}.strides[{}] is {}; one of the last two dimensions must be contiguous "
        "(stride 1)",
        name, last - 1, tensor.strides[last - 1], name, last, tensor.strides[last]));
  }
  if (scattered) {
    return invalid(fmt::format("{}.strides[{}] is {}; the last dimension must be contiguous (stride 1)", name,
                               last, tensor.strides[last]));
  }
  return {};
}

// Elements, and elements from the first to the farthest reachable one, both checked against 63 bits.
Status measure(std::string_view name, const tessera_tensor& tensor, std::int64_t* elements,
               std::int64_t* extent) {
  const auto overflow = [&](std::string_view what, int d) {
    return invalid(fmt::format("{}: {} passes 63 bits at dimension {} (shape {}, stride {})", name, what, d,
                               tensor.shape[d], tensor.strides[d]));
  };
  std::int64_t count = 1;
  for (int d = 0; d < tensor.rank; ++d) {
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(tensor.shape[d], 1), &count)) {
      return overflow("the number of elements", d);
    }
  }
  std::int64_t reached = 1;
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.shape[d] == 0) count = 0;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(tensor.shape[d] - 1, 0), tensor.strides[d], &reach) ||
        __builtin_add_overflow(reached, reach, &reached)) {
      return overflow("the farthest offset", d);
    }
  }
  *elements = count;
  *extent = count == 0 ? 0 : reached;
  return {};
}

}  // namespace

bool is_absent(const tessera_tensor& tensor) { return tensor.data == nullptr && tensor.rank == 0; }

Status check_tensor(std::string_view name, const TensorRule& rule, const tessera_tensor& tensor,
                    std::uint64_t* span_bytes) {
  if (Status s = check_rank(name, rule, tensor); !s.ok()) return s;
  if (Status s = check_dtype(name, rule, tensor); !s.ok()) return s;
  if (Status s = check_sizes(name, rule, tensor); !s.ok()) return s;
  std::int64_t elements = 0;
  std::int64_t extent = 0;
  if (Status s = measure(name, tensor, &elements, &extent); !s.ok()) return s;

  *span_bytes = 0;
  if (elements == 0) return {};
  if (tensor.data == nullptr) {
    return invalid(fmt::format("{}.data is null, but the tensor has {} elements", name, elements));
  }
  const std::int64_t size = dtype_size(tensor.dtype);
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % static_cast<std::uintptr_t>(size) != 0) {
    return invalid(fmt::format("{}.data is {}, which is not aligned to its {}-byte elements", name,
                               fmt::ptr(tensor.data), size));
  }
  std::int64_t bytes = 0;
  std::uintptr_t end = 0;
  if (__builtin_mul_overflow(extent, size, &bytes) ||
      __builtin_add_overflow(address, static_cast<std::uintptr_t>(bytes), &end)) {
    return invalid(fmt::format("{}: shape and strides reach {} elements past data, beyond the address space",
                               name, extent));
  }
  *span_bytes = static_cast<std::uint64_t>(bytes);
  return {};
}

Status agree(std::initializer_list<Agreement> all) {
  for (const Agreement& a : all) {
    if (a.tensor.shape[a.dimension] == a.want) continue;
    return invalid(fmt::format("{}.shape[{}] is {}, but {} is {}", a.name, a.dimension,
                               a.tensor.shape[a.dimension], a.meaning, a.want));
  }
  return {};
}

Status check_written_once(std::string_view name, const tessera_tensor& tensor) {
  int order[TESSERA_MAX_RANK] = {};  // dimensions that have more than one index, smallest stride first
  int count = 0;
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.shape[d] == 0) return {};
    if (tensor.shape[d] == 1) continue;
    int at = count++;
    for (; at > 0 && tensor.strides[order[at - 1]] > tensor.strides[d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  std::int64_t covered = 1;  // elements that the smaller strides span; measure() ruled out overflow
  for (int n = 0; n < count; ++n) {
    const int d = order[n];
    if (tensor.strides[d] < covered) {
      return invalid(
          fmt::format("{}.strides[{}] is {}, so elements of {} overlap each other; at least {} is accepted",
                      name, d, tensor.strides[d], name, covered));
    }
    covered += (tensor.shape[d] - 1) * tensor.strides[d];
  }
  return {};
}

}  // namespace tessera::core
