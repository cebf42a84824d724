// Tables for people, as text.
#pragma once

#include <string>
#include <vector>

namespace lockstep::train {

// Pads each column to its widest cell, with one space between columns and no trailing spaces. The
// last column is right-aligned, as it holds numbers. Each row ends in a newline. Requires: rows of
// the same length, of UTF-8.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::train
