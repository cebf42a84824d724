#include "base/text_table.h"

#include <algorithm>
#include <cstddef>

#include "base/characters.h"

namespace lockstep {
namespace {

// Keeps the first `width` characters.
void Cut(std::string& text, int width) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!BeginsCharacter(text[i]) || width-- > 0) continue;
    text.resize(i);
    return;
  }
}

}  // namespace

std::string TextTable(const std::vector<TextRow>& rows, const TextTableStyle& style) {
  std::vector<std::size_t> widths;
  for (const TextRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], CharacterCount(row[i]));
  }
  const std::string gap(static_cast<std::size_t>(style.gap), ' ');
  std::string table;
  for (const TextRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - CharacterCount(row[i]), ' ');
      const bool is_number = i + static_cast<std::size_t>(style.numbers) >= widths.size();
      line += (i > 0 ? gap : "") + (is_number ? padding + row[i] : row[i] + padding);
    }
    if (style.width > 0) Cut(line, style.width);
    table += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return table;
}

}  // namespace lockstep
