// POSIX calls, each with its error turned into a sentence.
#include "cli/files/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

namespace tessera::files {
namespace {

// A directory, a device or a pipe: refused by what it is, before anything is read from or put over it.
std::string what_is(const struct stat& info) {
  if (S_ISDIR(info.st_mode)) return "a directory";
  if (S_ISFIFO(info.st_mode)) return "a pipe";
  if (S_ISSOCK(info.st_mode)) return "a socket";
  return "a device";
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, std::string* error) {
  // O_NONBLOCK: opening a pipe without a writer must not hang.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    *error = fmt::format("cannot read {}: {}", path, std::strerror(errno));
    return nullptr;
  }
  struct stat info = {};
  void* data = nullptr;
  std::string what;
  if (::fstat(descriptor, &info) != 0) {
    what = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    what = fmt::format("it is {}; a regular file is needed", what_is(info));
  } else if (static_cast<std::uint64_t>(info.st_size) > std::numeric_limits<std::size_t>::max()) {
    what = fmt::format("{} bytes are too many for this machine", info.st_size);
  } else if (info.st_size > 0) {
    data = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) what = std::strerror(errno);
  }
  ::close(descriptor);
  if (!what.empty()) {
    *error = fmt::format("cannot read {}: {}", path, what);
    return nullptr;
  }
  return std::make_shared<const MappedFile>(data, static_cast<std::size_t>(info.st_size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

std::unique_ptr<AtomicFile> AtomicFile::create(const std::string& path, std::string* error) {
  // Past a limit on file sizes write() is to fail like on a full disk, not to kill us over half a file.
  std::signal(SIGXFSZ, SIG_IGN);
  std::string target = path;
  mode_t mode = 0666;  // less the umask, as for any new file
  bool replaces = false;
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) {
      *error = fmt::format("cannot write {}: it is {}; a regular file is needed", path, what_is(info));
      return nullptr;
    }
    if (::access(path.c_str(), W_OK) != 0) {
      *error = fmt::format("cannot write {}: {}", path, std::strerror(errno));
      return nullptr;
    }
    replaces = true;
    mode = info.st_mode & 0777;
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(path, failed);
    if (!failed) target = real.string();
  }
  // Not mkstemp: its files are private to the user, and the umask cannot be asked without changing it.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary = fmt::format("{}.{}-{}.part", target, ::getpid(), attempt);
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) break;
    if (replaces) (void)!::fchmod(descriptor, mode);  // best effort: the data matters more
    return std::unique_ptr<AtomicFile>(new AtomicFile(path, target, std::move(temporary), descriptor));
  }
  *error = fmt::format("cannot write {}: {}", path, std::strerror(errno));
  return nullptr;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

bool AtomicFile::write(Bytes bytes, std::string* error) {
  while (!bytes.empty()) {
    const std::size_t chunk = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
    const ssize_t written = ::write(descriptor_, bytes.data(), chunk);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      *error = fmt::format("cannot write {}: {}", shown_, std::strerror(errno));
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool AtomicFile::commit(std::string* error) {
  // Some file systems report a full disk only when the file is closed.
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0) {
    *error = fmt::format("cannot write {}: {}", shown_, std::strerror(errno));
    return false;
  }
  temporary_.clear();
  return true;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  if (std::filesystem::equivalent(a, b, failed) && !failed) return true;
  // One that is not there yet has a name alone.
  const auto name = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
  };
  const auto first = name(a);
  if (failed) return false;
  return name(b) == first && !failed;
}

}  // namespace tessera::files
