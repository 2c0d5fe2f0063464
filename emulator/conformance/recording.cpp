#include "emulator/conformance/recording.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "emulator/exec/launch.hpp"
#include "emulator/exec/tensor_map.hpp"

namespace emulator::conformance {
namespace {

constexpr std::string_view kTitle = "tessera conformance 1\n";

std::uint64_t add_to_hash(std::uint64_t hash, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::uint8_t*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}
constexpr std::uint64_t kHashStart = 0xcbf29ce484222325u;

// The bits of an item, whole bytes where there are more than one.
void append_bits(const Case& one, const std::uint32_t* item, std::vector<std::uint8_t>& to) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(item);
  to.insert(to.end(), bytes, bytes + one.result_bits / 8);
}

std::string hex(const std::uint8_t* bytes, std::size_t count) {  // the highest first
  std::string out = "0x";
  char two[4];
  for (std::size_t i = count; i-- > 0;) {
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    out += two;
  }
  return out;
}

std::string describe(const Case& one, std::size_t item, const std::uint8_t* want, const std::uint8_t* got,
                     std::size_t bytes) {
  std::string out = one.name + ", item " + std::to_string(item);
  if (one.input_words > 0) {
    out += ", operands";
    const auto* in = reinterpret_cast<const std::uint8_t*>(&one.input[item * one.input_words]);
    std::size_t used = one.input_words / 2 * 2;
    while (used > 2 && one.input[item * one.input_words + used - 1] == 0 &&
           one.input[item * one.input_words + used - 2] == 0)
      used -= 2;
    for (std::size_t i = 0; i < used; i += 2) out += " " + hex(in + 4 * i, 8);
  }
  for (std::size_t i = 0; i < bytes; i += 4) {
    const std::size_t size = std::min<std::size_t>(4, bytes - i);
    if (std::memcmp(want + i, got + i, size) == 0) continue;
    out += "; word " + std::to_string(i / 4) + " is " + hex(got + i, size) + ", on the GPU " +
           hex(want + i, size);
    if (size == 4) {
      float a, b;
      std::memcpy(&a, got + i, 4);
      std::memcpy(&b, want + i, 4);
      char text[80];
      std::snprintf(text, sizeof text, " (%.9g, %.9g)", static_cast<double>(a), static_cast<double>(b));
      out += text;
    }
    break;
  }
  return out + "\n";
}

bool is_within(const Bound& bound, const std::uint8_t* want, const std::uint8_t* got) {
  float a, b;
  std::memcpy(&a, got, 4);
  std::memcpy(&b, want, 4);
  if (std::memcmp(want, got, 4) == 0) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  const double most = std::max(std::fabs(static_cast<double>(a)), std::fabs(static_cast<double>(b)));
  return std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= bound.relative * most + bound.absolute;
}

}  // namespace

std::uint64_t input_hash(const Case& one) {
  const std::uint64_t hash = add_to_hash(kHashStart, one.ptx.data(), one.ptx.size());
  return add_to_hash(hash, one.input.data(), one.input.size() * 4);
}

Record shorten(const Case& one, const std::vector<std::uint32_t>& output) {
  Record out;
  out.input_hash = input_hash(one);
  if (one.result_bits == 1) {
    out.kept.resize((one.kept + 7) / 8);
    for (std::size_t i = 0; i < one.kept; ++i)
      out.kept[i / 8] |= static_cast<std::uint8_t>((output[i * one.item_words] & 1u) << i % 8);
  } else {
    for (std::size_t i = 0; i < one.kept; ++i) append_bits(one, &output[i * one.item_words], out.kept);
  }
  std::vector<std::uint8_t> bytes;
  for (std::size_t first = one.kept; first < one.items; first += one.chunk) {
    const std::size_t end = std::min(one.items, first + one.chunk);
    const std::uint64_t hash =
        add_to_hash(kHashStart, &output[first * one.item_words], (end - first) * one.item_words * 4);
    out.hashes.push_back(static_cast<std::uint32_t>(hash ^ hash >> 32));
  }
  return out;
}

std::string compare(const Case& one, const Record& record, const std::vector<std::uint32_t>& output) {
  const Record mine = shorten(one, output);
  if (mine.input_hash != record.input_hash || mine.kept.size() != record.kept.size() ||
      mine.hashes.size() != record.hashes.size())
    return one.name + ": the case has changed since it was recorded; record it again\n";
  std::string out;
  int found = 0;
  const std::size_t size = one.result_bits / 8;
  for (std::size_t i = 0; i < one.kept && found < 4; ++i) {
    if (size == 0) {
      const int want = record.kept[i / 8] >> i % 8 & 1, got = mine.kept[i / 8] >> i % 8 & 1;
      if (want == got) continue;
      const auto w = static_cast<std::uint8_t>(want), g = static_cast<std::uint8_t>(got);
      out += describe(one, i, &w, &g, 1);
      ++found;
      continue;
    }
    const std::uint8_t *want = &record.kept[i * size], *got = &mine.kept[i * size];
    if (std::memcmp(want, got, size) == 0 || (one.bound && is_within(*one.bound, want, got))) continue;
    out += describe(one, i, want, got, size);
    ++found;
  }
  for (std::size_t i = 0; i < mine.hashes.size() && found < 4; ++i) {
    if (mine.hashes[i] == record.hashes[i]) continue;
    const std::size_t first = one.kept + i * one.chunk;
    out += one.name + ": of the results " + std::to_string(first) + " to " +
           std::to_string(std::min(one.items, first + one.chunk) - 1) +
           " some differ; only their hash is kept\n";
    ++found;
  }
  return out;
}

void save(const Recording& recording, const std::string& file) {
  std::ofstream out(file, std::ios::binary);
  const auto number = [&](std::uint64_t x, int bytes) {
    out.write(reinterpret_cast<const char*>(&x), bytes);
  };
  out << kTitle;
  for (const auto& [name, record] : recording) {
    number(name.size(), 4);
    out << name;
    number(record.input_hash, 8);
    number(record.kept.size(), 4);
    number(record.hashes.size(), 4);
    out.write(reinterpret_cast<const char*>(record.kept.data()),
              static_cast<std::streamsize>(record.kept.size()));
    out.write(reinterpret_cast<const char*>(record.hashes.data()),
              static_cast<std::streamsize>(4 * record.hashes.size()));
  }
  if (!out) throw std::runtime_error(file + " could not be written");
}

Recording load(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (all.substr(0, kTitle.size()) != kTitle) throw std::runtime_error(file + " is not a recording");
  Recording out;
  std::size_t at = kTitle.size();
  const auto take = [&](void* to, std::size_t bytes) {
    if (bytes > all.size() - at) throw std::runtime_error(file + " ends in the middle of a case");
    std::memcpy(to, all.data() + at, bytes);
    at += bytes;
  };
  while (at < all.size()) {
    std::uint32_t length = 0, kept = 0, hashes = 0;
    take(&length, 4);
    if (length > all.size() - at) throw std::runtime_error(file + " ends in the middle of a name");
    Record& record = out[all.substr(at, length)];
    at += length;
    take(&record.input_hash, 8);
    take(&kept, 4);
    take(&hashes, 4);
    if (kept > all.size() || hashes > all.size())
      throw std::runtime_error(file + " ends in the middle of a case");
    record.kept.resize(kept);
    take(record.kept.data(), kept);
    record.hashes.resize(hashes);
    take(record.hashes.data(), 4 * std::size_t{hashes});
  }
  return out;
}

std::vector<std::uint32_t> emulate(const Case& one) {
  const DeviceDescription device{"H200",   90,      4, 48 << 10, 227 << 10, 228 << 10, std::size_t{1} << 34,
                                 50 << 20, 30 << 20};
  const auto executor = make_executor(device, {1, 1});
  executor->load(one.ptx, one.name);
  GlobalMemory& memory = executor->memory();
  const std::size_t in_bytes = one.input.size() * 4, out_bytes = one.items * one.item_words * 4;
  auto* in = static_cast<std::uint32_t*>(memory.allocate(in_bytes));
  auto* out = static_cast<std::uint32_t*>(memory.allocate(out_bytes));
  std::memcpy(in, one.input.data(), in_bytes);
  std::memset(out, 0, out_bytes);
  memory.mark_written(in, in_bytes);
  memory.mark_written(out, out_bytes);
  Launch launch{"conform",        {one.blocks, 1, 1},          {one.threads, 1, 1},
                one.shared_bytes, std::vector<std::byte>(192), false};
  std::memcpy(launch.params.data(), &in, 8);
  std::memcpy(launch.params.data() + 8, &out, 8);
  if (one.tensor) {
    TensorMap map;
    map.rank = static_cast<std::uint8_t>(one.tensor->rank);
    map.element = one.tensor->element_bytes == 1 ? TensorElement::kUint8 : TensorElement::kFloat16;
    map.element_bytes = static_cast<std::uint8_t>(one.tensor->element_bytes);
    map.swizzle = static_cast<TensorSwizzle>(one.tensor->swizzle);
    map.base = reinterpret_cast<std::uint64_t>(in) + one.tensor->offset;
    map.strides = one.tensor->strides;
    map.extents = one.tensor->extents;
    map.box = one.tensor->box;
    std::memcpy(launch.params.data() + 64, &map, sizeof map);
  }
  const auto reports = executor->run(launch);
  if (!reports.empty()) throw std::runtime_error(reports[0].text());
  return {out, out + out_bytes / 4};
}

}  // namespace emulator::conformance
