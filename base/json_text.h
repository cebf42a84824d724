// Shows JSON to people. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

// Returns compact JSON in ASCII. If it has more than `bytes` bytes, cuts it there and appends "…".
// Replaces what is not UTF-8.
std::string JsonText(const nlohmann::json& json, std::size_t bytes = 80);

// Returns compact JSON in ASCII, in which nothing acts on a terminal. Replaces what is not UTF-8.
std::string AsciiJson(const nlohmann::ordered_json& json);

}  // namespace lockstep
