// Files as the parsers and writers here need them: whole files mapped for reading, and outputs that
// appear under their name complete or not at all.
#pragma once

#include <memory>
#include <string>

#include "cli/files/array.hpp"

namespace tessera::files {

// A regular file, mapped read-only: a lying or sparse file costs address space, never memory.
class MappedFile {
 public:
  // On failure returns null and puts a sentence that names the file into *error.
  static std::shared_ptr<const MappedFile> open(const std::string& path, std::string* error);

  MappedFile(void* data, std::size_t size) : data_(data), size_(size) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_;
  std::size_t size_;
};

// Bytes go to a temporary file beside the target; commit() renames it there, destruction without
// commit() removes it. Follows symbolic links and keeps the permissions of a file it replaces.
class AtomicFile {
 public:
  // On failure returns null and puts a sentence that names the file into *error.
  static std::unique_ptr<AtomicFile> create(const std::string& path, std::string* error);

  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  bool write(Bytes bytes, std::string* error);
  bool write(std::string_view text, std::string* error) {
    return write(std::as_bytes(std::span(text.data(), text.size())), error);
  }
  bool commit(std::string* error);

 private:
  AtomicFile(std::string shown, std::string target, std::string temporary, int descriptor)
      : shown_(std::move(shown)),
        target_(std::move(target)),
        temporary_(std::move(temporary)),
        descriptor_(descriptor) {}

  std::string shown_;  // the path as the user gave it
  std::string target_;
  std::string temporary_;  // empty once renamed or removed
  int descriptor_;
};

// Whether both names lead to one existing file.
bool same_file(const std::string& a, const std::string& b);

}  // namespace tessera::files
