// JSON that copies share: for what is large, is copied often and changes hardly ever.
#pragma once

#include <concepts>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::api {

// A value like the JSON that it is made from, but not to be changed in place. Thread-safe as
// std::shared_ptr is.
class SharedJson {
 public:
  SharedJson() : SharedJson(nlohmann::json::object()) {}
  // Of JSON alone: braces would make other JSON of what stands in them than nlohmann's do.
  template <std::same_as<nlohmann::json> Json>
  SharedJson(Json json)  // NOLINT(google-explicit-constructor): it stands for the value
      : json_(std::make_shared<const Json>(std::move(json))) {}

  const nlohmann::json& operator*() const { return *json_; }
  const nlohmann::json* operator->() const { return json_.get(); }

  bool operator==(const SharedJson& other) const {
    return json_ == other.json_ || *json_ == *other.json_;
  }

 private:
  std::shared_ptr<const nlohmann::json> json_;
};

}  // namespace lockstep::api
