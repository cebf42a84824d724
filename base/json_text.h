// Shows JSON in messages. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

// Returns compact JSON in ASCII. If it has more than `bytes` bytes, cuts it there and appends "…".
// Replaces what is not UTF-8.
std::string JsonText(const nlohmann::json& json, std::size_t bytes = 80);

}  // namespace lockstep
