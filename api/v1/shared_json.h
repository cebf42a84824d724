// JSON that copies share, for values that are large, often copied and rarely changed.
#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace lockstep::api {

// An immutable JSON value.
//
// It may be held only as text (Packed), which takes a tenth of the memory of many small values.
// Such a value is parsed on first read; the parsed form lives as long as the object that was read
// and the copies made of it since. The object that it was copied from stays text. So a cache holds
// text, and each user of a copy parses it at most once.
//
// As thread-safe as std::shared_ptr: any number of threads may read and copy the same object.
class SharedJson {
 public:
  SharedJson() : SharedJson(nlohmann::json::object()) {}
  // Accepts only nlohmann::json, since a braced list would convert to other JSON here than in
  // nlohmann's own constructors.
  template <std::same_as<nlohmann::json> Json>
  SharedJson(Json json)  // NOLINT(google-explicit-constructor): it represents the value
      : held_(std::make_shared<Held>(std::move(json))) {}

  SharedJson(const SharedJson& other);
  SharedJson& operator=(const SharedJson& other);
  SharedJson(SharedJson&&) noexcept = default;
  SharedJson& operator=(SharedJson&&) noexcept = default;
  ~SharedJson() = default;

  const nlohmann::json& operator*() const;
  const nlohmann::json* operator->() const { return &**this; }

  // Returns the same value, held only as text. Requires: its strings are UTF-8.
  SharedJson Packed() const;
  // Returns compact JSON, without parsing anything. Requires: its strings are UTF-8.
  std::shared_ptr<const std::string> Text() const;
  // Returns true for an object or list without entries. Parses nothing.
  bool empty() const;
  // False while it is held only as text.
  bool is_parsed() const { return held_->is_parsed.load(std::memory_order_acquire); }

  bool operator==(const SharedJson& other) const {
    return held_ == other.held_ || **this == *other;
  }

 private:
  struct Held {
    explicit Held(nlohmann::json json) : value(std::move(json)), is_parsed(true) {}
    explicit Held(std::shared_ptr<const std::string> packed) : text(std::move(packed)) {}

    const std::shared_ptr<const std::string> text;  // null if the value was never packed
    std::once_flag parse;
    nlohmann::json value;  // valid if is_parsed
    std::atomic<bool> is_parsed{false};
  };

  explicit SharedJson(std::shared_ptr<Held> held) : held_(std::move(held)) {}

  std::shared_ptr<Held> held_;  // null in a moved-from object
};

}  // namespace lockstep::api
