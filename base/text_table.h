// Tables for people, as text. Pure.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

using TextRow = std::vector<std::string>;

struct TextTableStyle {
  int gap = 3;      // spaces between columns
  int numbers = 0;  // so many of the last columns are aligned at their right
  int width = 0;    // cuts a line after so many characters; 0: never
};

// Returns a line for each row, ended by a newline and without spaces before it. Each column is as
// wide as its widest cell; a row may have fewer cells than others. Widths are in characters of
// UTF-8, not in bytes, so that columns stay aligned and no character is cut.
// Requires: each row has a cell.
std::string TextTable(const std::vector<TextRow>& rows, const TextTableStyle& style = {});

}  // namespace lockstep
