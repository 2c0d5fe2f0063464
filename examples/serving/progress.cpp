#include "progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace serving {

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(isatty(STDOUT_FILENO) == 1) {}

void Progress::end() {
  if (terminal_) std::printf("\r\033[K");
  std::fflush(stdout);
}

void Progress::show(int done, int all, const std::string& text) {
  constexpr int kBar = 30, kLines = 5;
  const int steps = terminal_ ? kBar : kLines, now = done * steps / all;
  if (!terminal_ && now == shown_) return;
  shown_ = now;
  if (terminal_) {
    const std::string bar = std::string(static_cast<std::size_t>(now), '#') +
                            std::string(static_cast<std::size_t>(kBar - now), '.');
    std::printf("\r\033[K%s [%s] %d/%d%s", what_.c_str(), bar.c_str(), done, all, text.c_str());
  } else {
    std::printf("%s %d/%d%s\n", what_.c_str(), done, all, text.c_str());
  }
  std::fflush(stdout);
}

}  // namespace serving
