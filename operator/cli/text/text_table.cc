#include "operator/cli/text/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace lockstep::cli {

std::string AlignColumns(const std::vector<Row>& rows, int width) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      line += fmt::format("{:<{}}   ", row[i], widths[i]);
    }
    line += row.back();
    if (width > 0) line.resize(std::min(line.size(), static_cast<std::size_t>(width)));
    text += line + '\n';
  }
  return text;
}

}  // namespace lockstep::cli
