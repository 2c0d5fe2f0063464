// Terminal output; see term.hpp.
#include "cli/term.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace tessera::cli {
namespace {

bool understands_escape_codes(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

bool colour_wanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  return (no_colour == nullptr || no_colour[0] == '\0') && understands_escape_codes(STDOUT_FILENO);
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

constexpr std::size_t kGap = 3;  // between columns of a table

constexpr std::size_t kLeastFolded = 16;  // narrower columns are no longer read

// The first `width` columns of text without escape codes.
std::string_view cut(std::string_view text, std::size_t width) {
  std::size_t end = text.size();
  for (std::size_t columns = display_width(text); columns > width && end > 0;)
    if ((static_cast<unsigned char>(text[--end]) & 0xC0U) != 0x80U) --columns;
  return text.substr(0, end);
}

// The text in lines of at most `width` columns, broken at spaces, and within words that are longer. Colour
// holds for a cell as a whole (paint()), so each line gets it anew.
std::vector<std::string> folded(std::string_view text, std::size_t width) {
  std::string_view ink, plain;
  if (text.starts_with("\033[") && text.ends_with("\033[0m")) {
    ink = text.substr(0, text.find('m') + 1), plain = "\033[0m";
    text = text.substr(ink.size(), text.size() - ink.size() - plain.size());
  }
  std::vector<std::string> lines;
  do {
    std::string_view line = cut(text, width);
    const std::size_t space = line.rfind(' ');
    if (line.size() < text.size() && text[line.size()] != ' ' && space != std::string_view::npos && space > 0)
      line = line.substr(0, space);
    lines.push_back(fmt::format("{}{}{}", ink, line, plain));
    text.remove_prefix(line.size());
    if (text.starts_with(' ')) text.remove_prefix(1);
  } while (!text.empty() && width > 0);
  return lines;
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

std::size_t line_width(int descriptor) {
  if (isatty(descriptor) != 1) return std::numeric_limits<std::size_t>::max();
  constexpr std::size_t kLeast = 20;
  std::size_t columns = 0;
  if (const char* wish = std::getenv("COLUMNS"); wish != nullptr)
    std::from_chars(wish, wish + std::string_view(wish).size(), columns);
  winsize size{};
  if (columns < kLeast && ioctl(descriptor, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns < kLeast ? 80 : columns;
}

std::vector<std::size_t> Table::natural_widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c)
      widths[c] = std::max(widths[c], display_width(row[c]));
  return widths;
}

// Its longest word, if that is not very long.
std::size_t Table::narrowest(std::size_t column) const {
  std::size_t longest = 0;
  for (const auto& row : rows_) {
    std::string_view rest = column < row.size() ? std::string_view(row[column]) : "";
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      longest = std::max(longest, display_width(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return std::max(std::min(longest, kLeastFolded), display_width(columns_[column].title));
}

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> widths = natural_widths();
  std::vector<std::size_t> shown;
  for (std::size_t c = 0; c < columns_.size(); ++c) shown.push_back(c);
  const auto total = [&] {
    std::size_t sum = 0;
    for (const std::size_t c : shown) sum += widths[c] + kGap;
    return sum - 1;
  };
  std::string left_out;
  for (std::size_t c = columns_.size(); c-- > 0 && total() > width;) {
    if (!columns_[c].spare) continue;
    shown.erase(std::find(shown.begin(), shown.end(), c));
    left_out = columns_[c].title + (left_out.empty() ? "" : ", ") + left_out;
  }
  std::vector<std::size_t> least = widths;
  for (const std::size_t c : shown)
    if (columns_[c].side == Side::left) least[c] = narrowest(c);
  while (total() > width) {
    const auto widest = std::max_element(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return (widths[a] > least[a] ? widths[a] : 0) < (widths[b] > least[b] ? widths[b] : 0);
    });
    if (widths[*widest] == least[*widest]) break;  // nothing is left to fold
    --widths[*widest];
  }

  const auto lines = [&](auto&& cell) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (const std::size_t c : shown) {
      cells.push_back(folded(cell(c), widths[c]));
      height = std::max(height, cells.back().size());
    }
    std::string text;
    for (std::size_t n = 0; n < height; ++n) {
      std::string line;
      for (std::size_t i = 0; i < shown.size(); ++i)
        line.append(i == 0 ? kGap - 1 : kGap, ' ')
            .append(pad(n < cells[i].size() ? cells[i][n] : "", widths[shown[i]], columns_[shown[i]].side));
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  };
  std::string all = lines([&](std::size_t c) { return paint(Ink::dim, columns_[c].title); });
  for (const auto& row : rows_)
    all += lines([&](std::size_t c) { return c < row.size() ? row[c] : std::string(); });
  if (!left_out.empty())
    for (const std::string& line :
         folded(paint(Ink::dim, "Too narrow a terminal for: " + left_out), width - 2))
      all += "  " + line + "\n";
  return all;
}

std::string Table::text() const { return text(line_width(STDOUT_FILENO)); }

Progress::Progress(std::string label, std::size_t total)
    : label_(std::move(label)),
      total_(std::max<std::size_t>(total, 1)),
      width_(line_width(STDERR_FILENO)),
      terminal_(understands_escape_codes(STDERR_FILENO)) {}

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
  const std::string line =
      fmt::format("{} {} {}/{}  {:.0f} s left  {}", label_, bar, done_, total_, left_s, detail.substr(0, 40));
  // One line, or what has run over into the next could not be taken back.
  (void)!std::fputs(fmt::format("\r\033[K{}", cut(line, width_ - 1)).c_str(), stderr);
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (drawn_) (void)!std::fputs("\r\033[K", stderr);
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
  constexpr std::size_t kLeast = 8;
  const std::size_t before = label_width + note_width + 6, line = line_width(STDOUT_FILENO);
  width = std::min(width, std::max(kLeast, line > before ? line - before : 0));
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
