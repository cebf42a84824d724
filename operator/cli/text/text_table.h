// Columns of text, as kubectl prints them. Pure.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

using Row = std::vector<std::string>;

// Returns a line for each row. Each column but the last is as wide as its widest cell, with three
// spaces between columns. Cuts lines after `width` bytes; 0: never.
std::string AlignColumns(const std::vector<Row>& rows, int width = 0);

}  // namespace lockstep::cli
