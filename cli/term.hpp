// What the verbs print with: colour, tables, a progress bar, a bar chart. Colour and progress appear only
// on a terminal, and only there is anything cut to a width, so a pipe or a log file gets plain text and all
// of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

enum class Ink { plain, bold, dim, red, green, yellow, cyan };

// The text in a colour if stdout is a terminal and NO_COLOR is not set; else the text alone.
std::string paint(Ink ink, std::string_view text);

// Columns a terminal needs for UTF-8 text; escape codes count as nothing.
std::size_t display_width(std::string_view text);

// Columns that a line on stdout or stderr may take: the terminal's, or COLUMNS where that is set; without a
// terminal as many as one likes.
std::size_t line_width(int descriptor);

class Table {
 public:
  enum class Side { left, right };
  struct Column {
    std::string title;
    Side side = Side::left;
    bool spare = false;  // left out, the last one first, where the table is too wide
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // At most so wide, if it can be: spare columns are left out, then the widest columns of words are folded.
  [[nodiscard]] std::string text(std::size_t width) const;
  [[nodiscard]] std::string text() const;  // for stdout

 private:
  [[nodiscard]] std::vector<std::size_t> natural_widths() const;
  [[nodiscard]] std::size_t narrowest(std::size_t column) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A bar on stderr, drawn only on a terminal and only once the work has lasted over a second.
class Progress {
 public:
  Progress(std::string label, std::size_t total);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void tick(std::string_view detail);  // one more is done; safe from many threads
  void finish();                       // takes the bar off the screen

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  std::string label_;
  std::size_t total_;
  std::size_t width_;
  std::size_t done_ = 0;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_ = start_;
};

struct Bar {
  std::string label;
  double value = 0;
  std::string note;  // printed between label and bar
  Ink ink = Ink::plain;
};
// One line a bar, the longest `width` columns, or what the terminal leaves; any positive value shows at least
// a sliver.
std::string bar_chart(const std::vector<Bar>& bars, std::size_t width = 40);

// Numbers for people: "2.2 µs", "1,136 µs"; "137.4 GFLOP", "4.2 MB" (powers of 1000); "1,136".
std::string microseconds(double us);
std::string si(double value, std::string_view unit);
std::string grouped(double value);

}  // namespace tessera::cli
