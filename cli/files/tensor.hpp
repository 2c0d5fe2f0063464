// From a name on the command line to a tensor the library takes, and back.
//
// A name is "file.npy", "file.safetensors:tensor", or "file.safetensors" alone, where the tensor is
// looked up under the usual names of its role, or is the only one in the file.
#pragma once

#include <memory>

#include "cli/files/file.hpp"

namespace tessera::files {

// C order, native byte order, aligned for its element type. Points into the mapped file where that
// already holds, else into a copy.
struct Tensor {
  Element element = Element::f32;
  Shape shape;
  Bytes bytes;
  std::shared_ptr<const void> owner;
  std::string source;  // "q.npy" or "model.safetensors:q", for messages

  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size()) / element_size(element); }
};

// Where a name leads: the tensor is empty where the name gives none.
struct Location {
  std::string path;
  std::string tensor;
  bool safetensors = false;
};
Location locate(const std::string& name);

// On failure returns nothing and puts a sentence that names the file into *error.
std::optional<Tensor> load_tensor(const std::string& name, std::span<const std::string_view> usual_names,
                                  std::string* error);

// Arranges an array for the library; the bytes must stay valid as long as `owner` lives.
Tensor settle(const Array& array, std::shared_ptr<const void> owner, std::string source);

// Rounds float64 to float32, the only conversion that loses anything and so only on request.
Tensor narrowed(const Tensor& tensor);

// Integers of any type as int64; on failure (no integers, a value too large) puts a sentence into *error.
std::optional<Tensor> as_int64(const Tensor& tensor, std::string* error);

// Results on their way to files. open() creates the temporary files, so that an unwritable place is
// found before the work; save() writes them all and only then renames them. Two results that name the
// same .safetensors file share it.
class Outputs {
 public:
  // `usual_name` is the tensor's name where `name` leads to a .safetensors file and gives none.
  bool open(const std::string& name, std::string_view usual_name, std::string* error);
  // One tensor for each open(), in that order.
  bool save(std::span<const Tensor> tensors, std::string* error);

 private:
  struct File {
    Location location;
    std::unique_ptr<AtomicFile> out;
    std::vector<std::pair<std::string, std::size_t>> tensors;  // name, index of its open()
  };
  std::vector<File> files_;
  std::size_t opened_ = 0;
};

}  // namespace tessera::files
