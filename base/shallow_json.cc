#include "base/shallow_json.h"

#include <algorithm>
#include <cstddef>

namespace lockstep {
namespace {

// Exact for JSON. For other text, at least the levels of its beginning, as far as that is JSON.
int LevelsOf(std::string_view text) {
  int levels = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++levels);
    } else if (c == '}' || c == ']') {
      --levels;
    }
  }
  return deepest;
}

}  // namespace

nlohmann::json ParseShallowJson(std::string_view text, int most_levels) {
  if (LevelsOf(text) > most_levels) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace lockstep
