// The page's files, which CMake makes part of the program (operator/cli/ui/page).
#pragma once

#include <string_view>
#include <vector>

namespace lockstep::cli {

struct PageFile {
  std::string_view path, content_type, text;  // "/style.css"
};

const std::vector<PageFile>& PageFiles();

}  // namespace lockstep::cli
