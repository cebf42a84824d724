#include "base/json_text.h"

#include "base/shorten.h"

namespace lockstep {

std::string JsonText(const nlohmann::json& json, std::size_t bytes) {
  return Shortened(
      json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace), bytes,
      "…");
}

std::string AsciiJson(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lockstep
