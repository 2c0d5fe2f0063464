// Loading: find, parse, arrange. Copies are made only of what the library cannot take as it lies, and
// are as long as the data in the file.
#include "cli/files/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "cli/files/npy.hpp"
#include "cli/files/safetensors.hpp"

namespace tessera::files {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";

struct Buffer {
  std::shared_ptr<std::byte[]> memory;
  std::size_t size = 0;

  explicit Buffer(std::size_t bytes) : memory(new std::byte[std::max<std::size_t>(bytes, 1)]), size(bytes) {}
  Bytes bytes() const { return {memory.get(), size}; }
};

// Source position of each element in C order, for an array whose first dimension is contiguous.
class FortranWalk {
 public:
  explicit FortranWalk(const Shape& shape) : shape_(shape), index_(shape.size(), 0), steps_(shape.size()) {
    std::int64_t step = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      steps_[d] = step;
      step *= shape[d];
    }
  }
  std::int64_t position() const { return position_; }
  void next() {
    for (std::size_t d = shape_.size(); d-- > 0;) {
      position_ += steps_[d];
      if (++index_[d] < shape_[d]) return;
      position_ -= steps_[d] * shape_[d];
      index_[d] = 0;
    }
  }

 private:
  const Shape& shape_;
  Shape index_, steps_;
  std::int64_t position_ = 0;
};

const Array* pick(const TensorMap& tensors, const Location& at, std::span<const std::string_view> usual_names,
                  std::string* picked, std::string* error) {
  const auto found = [&](std::string_view name) -> const Array* {
    const auto it = tensors.find(name);
    if (it == tensors.end()) return nullptr;
    *picked = it->first;
    return &it->second;
  };
  if (!at.tensor.empty()) {
    if (const Array* array = found(at.tensor)) return array;
  } else {
    for (std::string_view name : usual_names) {
      if (const Array* array = found(name)) return array;
    }
    if (tensors.size() == 1) return found(tensors.begin()->first);
  }
  std::vector<std::string> names;
  for (auto it = tensors.begin(); it != tensors.end() && names.size() < 8; ++it)
    names.push_back(printable(it->first));
  *error = fmt::format(
      "{}: there is no tensor {} of an accepted dtype; it holds {}{}", at.path,
      at.tensor.empty() ? fmt::format("'{}'", fmt::join(usual_names, "' or '")) : printable(at.tensor),
      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
      tensors.size() > names.size() ? fmt::format(" and {} more", tensors.size() - names.size()) : "");
  return nullptr;
}

template <class T>
std::int64_t read_at(Bytes bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return static_cast<std::int64_t>(value);
}

}  // namespace

Location locate(const std::string& name) {
  const std::string split = std::string(kSafetensors) + ':';
  const std::size_t at = name.find(split);
  if (at == std::string::npos) return {name, "", name.ends_with(kSafetensors)};
  return {name.substr(0, at + kSafetensors.size()), name.substr(at + split.size()), true};
}

std::optional<Tensor> load_tensor(const std::string& name, std::span<const std::string_view> usual_names,
                                  std::string* error) {
  const Location at = locate(name);
  const std::shared_ptr<const MappedFile> file = MappedFile::open(at.path, error);
  if (!file) return std::nullopt;
  std::string what;
  if (!at.safetensors) {
    const std::optional<Array> array = parse_npy(file->bytes(), &what);
    if (array) return settle(*array, file, at.path);
  } else if (const std::optional<TensorMap> tensors = parse_safetensors(file->bytes(), &what)) {
    std::string picked;
    const Array* array = pick(*tensors, at, usual_names, &picked, error);
    if (array == nullptr) return std::nullopt;
    return settle(*array, file, at.path + ':' + picked);
  }
  *error = fmt::format("{}: {}", at.path, what);
  return std::nullopt;
}

Tensor settle(const Array& array, std::shared_ptr<const void> owner, std::string source) {
  Tensor tensor{array.element, array.shape, array.bytes, std::move(owner), std::move(source)};
  const auto size = static_cast<std::size_t>(element_size(array.element));
  const bool swap = size > 1 && array.big_endian != (std::endian::native == std::endian::big);
  const bool transpose = array.fortran_order && array.shape.size() > 1;
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.bytes.data()) % size == 0;
  if (array.bytes.empty() || (aligned && !swap && !transpose)) return tensor;

  const Buffer copy(array.bytes.size());
  if (transpose) {
    FortranWalk walk(array.shape);
    for (std::size_t at = 0; at < copy.size; at += size, walk.next()) {
      std::memcpy(copy.memory.get() + at,
                  array.bytes.data() + static_cast<std::size_t>(walk.position()) * size, size);
    }
  } else {
    std::memcpy(copy.memory.get(), array.bytes.data(), copy.size);
  }
  if (swap) {
    for (std::size_t at = 0; at < copy.size; at += size) {
      std::reverse(copy.memory.get() + at, copy.memory.get() + at + size);
    }
  }
  tensor.bytes = copy.bytes();
  tensor.owner = copy.memory;
  return tensor;
}

Tensor narrowed(const Tensor& tensor) {
  const Buffer copy(tensor.bytes.size() / 2);
  for (std::size_t i = 0; i < copy.size / sizeof(float); ++i) {
    double wide;
    std::memcpy(&wide, tensor.bytes.data() + i * sizeof(double), sizeof(double));
    const auto narrow = static_cast<float>(wide);
    std::memcpy(copy.memory.get() + i * sizeof(float), &narrow, sizeof(float));
  }
  return {Element::f32, tensor.shape, copy.bytes(), copy.memory, tensor.source};
}

std::optional<Tensor> as_int64(const Tensor& tensor, std::string* error) {
  std::int64_t (*read)(Bytes, std::int64_t) = nullptr;
  switch (tensor.element) {
    case Element::i8:
      read = read_at<std::int8_t>;
      break;
    case Element::i16:
      read = read_at<std::int16_t>;
      break;
    case Element::i32:
      read = read_at<std::int32_t>;
      break;
    case Element::i64:
      return tensor;
    case Element::u8:
      read = read_at<std::uint8_t>;
      break;
    case Element::u16:
      read = read_at<std::uint16_t>;
      break;
    case Element::u32:
      read = read_at<std::uint32_t>;
      break;
    case Element::u64:
      read = read_at<std::uint64_t>;
      break;
    default:
      *error = fmt::format("{}: it holds {}, but integers are needed", tensor.source,
                           element_name(tensor.element));
      return std::nullopt;
  }
  // One-byte integers grow eightfold, from the size of the file: not a claim, but still worth a limit.
  constexpr std::int64_t kMostIntegers = std::int64_t{1} << 24;
  if (tensor.count() > kMostIntegers) {
    *error =
        fmt::format("{}: {} integers; at most {} are accepted", tensor.source, tensor.count(), kMostIntegers);
    return std::nullopt;
  }
  const Buffer copy(static_cast<std::size_t>(tensor.count()) * sizeof(std::int64_t));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const std::int64_t value = read(tensor.bytes, i);
    if (tensor.element == Element::u64 && value < 0) {
      *error = fmt::format("{}: element {} is above 2^63", tensor.source, i);
      return std::nullopt;
    }
    std::memcpy(copy.memory.get() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
  }
  return Tensor{Element::i64, tensor.shape, copy.bytes(), copy.memory, tensor.source};
}

bool Outputs::open(const std::string& name, std::string_view usual_name, std::string* error) {
  const Location at = locate(name);
  if (!at.safetensors && !at.path.ends_with(".npy")) {
    *error = fmt::format("cannot write {}: the name must end in .npy or .safetensors", at.path);
    return false;
  }
  const std::string tensor = at.tensor.empty() ? std::string(usual_name) : at.tensor;
  for (File& file : files_) {
    if (file.location.path != at.path && !same_file(file.location.path, at.path)) continue;
    if (!at.safetensors ||
        std::ranges::any_of(file.tensors, [&](const auto& t) { return t.first == tensor; })) {
      *error = fmt::format("cannot write {}: two results cannot share {}", at.path,
                           at.safetensors ? "one tensor name" : "one .npy file");
      return false;
    }
    file.tensors.emplace_back(tensor, opened_++);
    return true;
  }
  std::unique_ptr<AtomicFile> out = AtomicFile::create(at.path, error);
  if (!out) return false;
  files_.push_back({at, std::move(out), {{tensor, opened_++}}});
  return true;
}

bool Outputs::save(std::span<const Tensor> tensors, std::string* error) {
  static_assert(std::endian::native == std::endian::little, "the writers put memory to disk as it is");
  for (File& file : files_) {
    std::vector<NamedShape> shapes;
    for (const auto& [name, index] : file.tensors)
      shapes.push_back({name, tensors[index].element, tensors[index].shape});
    const std::string header = file.location.safetensors ? safetensors_header(shapes)
                                                         : npy_header(shapes[0].element, shapes[0].shape);
    if (!file.out->write(header, error)) return false;
    for (const auto& [name, index] : file.tensors) {
      if (!file.out->write(tensors[index].bytes, error)) return false;
    }
  }
  return std::ranges::all_of(files_, [&](File& file) { return file.out->commit(error); });
}

}  // namespace tessera::files
