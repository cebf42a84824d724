// Members of JSON objects that are null where nothing is known.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::cli {

template <typename T>
nlohmann::ordered_json OrNull(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

// Null if the text is empty.
inline nlohmann::ordered_json OrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace lockstep::cli
