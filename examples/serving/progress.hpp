// How far it is: a bar that moves on a terminal, a line for each fifth elsewhere.
#pragma once

#include <string>

namespace serving {

class Progress {
 public:
  explicit Progress(std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { end(); }

  void show(int done, int all, const std::string& text = "");
  void end();  // takes the bar away

 private:
  std::string what_;
  bool terminal_;
  int shown_ = 0;
};

}  // namespace serving
