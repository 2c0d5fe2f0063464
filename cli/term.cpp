// Terminal output; see term.hpp.
#include "cli/term.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tessera::cli {
namespace {

bool colour_wanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no_colour != nullptr && no_colour[0] != '\0') return false;
  if (terminal != nullptr && std::string_view(terminal) == "dumb") return false;
  return isatty(STDOUT_FILENO) == 1;
}

std::string_view escape(Ink ink) {
  switch (ink) {
    case Ink::plain:
      return "";
    case Ink::bold:
      return "\033[1m";
    case Ink::dim:
      return "\033[2m";
    case Ink::red:
      return "\033[31m";
    case Ink::green:
      return "\033[32m";
    case Ink::yellow:
      return "\033[33m";
    case Ink::cyan:
      return "\033[36m";
  }
  return "";
}

std::string pad(std::string_view text, std::size_t width, Table::Side side) {
  const std::size_t used = display_width(text);
  const std::string gap(width > used ? width - used : 0, ' ');
  return side == Table::Side::left ? std::string(text) + gap : gap + std::string(text);
}

std::string repeat(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

// `length` columns, to an eighth of a column.
std::string blocks(double length) {
  static constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(std::lround(std::max(length, 0.0) * 8));
  return repeat("█", eighths / 8) + std::string(kEighths[eighths % 8]);
}

}  // namespace

std::string paint(Ink ink, std::string_view text) {
  static const bool wanted = colour_wanted();
  if (!wanted || ink == Ink::plain || text.empty()) return std::string(text);
  return fmt::format("{}{}\033[0m", escape(ink), text);
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++width;  // UTF-8 continuation bytes take no column
    }
  }
  return width;
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c)
      widths[c] = std::max(widths[c], display_width(row[c]));

  const auto line = [&](auto&& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      text.append(c == 0 ? "  " : "   ").append(pad(cell(c), widths[c], columns_[c].side));
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string all = line([&](std::size_t c) { return paint(Ink::dim, columns_[c].title); });
  for (const auto& row : rows_) all += line([&](std::size_t c) { return c < row.size() ? row[c] : ""; });
  return all;
}

Progress::Progress(std::string label, std::size_t total)
    : label_(std::move(label)),
      total_(std::max<std::size_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::tick(std::string_view detail) {
  using namespace std::chrono_literals;
  const std::lock_guard lock(mutex_);
  done_ = std::min(done_ + 1, total_);
  const auto now = Clock::now();
  if (!terminal_ || now - start_ < 1s || now - last_draw_ < 100ms) return;
  last_draw_ = now;
  drawn_ = true;
  const double part = static_cast<double>(done_) / static_cast<double>(total_);
  const double left_s = std::chrono::duration<double>(now - start_).count() * (1 - part) / part;
  const std::string bar = pad(blocks(part * 24), 24, Table::Side::left);
  std::string shown(detail.substr(0, 40));
  fmt::print(stderr, "\r\033[K{} {} {}/{}  {:.0f} s left  {}", label_, bar, done_, total_, left_s, shown);
  std::fflush(stderr);
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

std::string bar_chart(const std::vector<Bar>& bars, std::size_t width) {
  std::size_t label_width = 0, note_width = 0;
  double longest = 0;
  for (const Bar& bar : bars) {
    label_width = std::max(label_width, display_width(bar.label));
    note_width = std::max(note_width, display_width(bar.note));
    longest = std::max(longest, bar.value);
  }
  std::string text;
  for (const Bar& bar : bars) {
    const double share = longest > 0 ? bar.value / longest : 0;
    const double length = bar.value > 0 ? std::max(share * static_cast<double>(width), 0.125) : 0;
    text += fmt::format("  {}  {}  {}\n", pad(bar.label, label_width, Table::Side::left),
                        pad(bar.note, note_width, Table::Side::left), paint(bar.ink, blocks(length)));
  }
  return text;
}

std::string grouped(double value) {
  const std::string digits = fmt::format("{:.0f}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string microseconds(double us) {
  if (us >= 99.95) return grouped(us) + " µs";
  return us >= 0.95 ? fmt::format("{:.1f} µs", us) : fmt::format("{:.3f} µs", us);
}

std::string si(double value, std::string_view unit) {
  static constexpr std::array<std::string_view, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t step = 0;
  while (std::abs(value) >= 999.95 && step + 1 < kPrefixes.size()) value /= 1000, ++step;
  return step == 0 ? fmt::format("{:g} {}", value, unit)
                   : fmt::format("{:.1f} {}{}", value, kPrefixes[step], unit);
}

}  // namespace tessera::cli
