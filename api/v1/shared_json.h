// JSON that copies share: for what is large, is copied often and changes hardly ever.
#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace lockstep::api {

// A value like the JSON that it is made from, but not to be changed in place.
//
// It may be held as text alone (Packed), which takes a tenth of the memory of many small values. It
// is then parsed when it is first read, and what was parsed lives as long as the object that was
// read and the copies made of it since. The one that it was copied from stays text. So a cache
// holds text, and whoever copies a value from it parses it once, if at all.
//
// Thread-safe as std::shared_ptr is: any number of threads may read and copy the same object.
class SharedJson {
 public:
  SharedJson() : SharedJson(nlohmann::json::object()) {}
  // Of JSON alone: braces would make other JSON of what stands in them than nlohmann's do.
  template <std::same_as<nlohmann::json> Json>
  SharedJson(Json json)  // NOLINT(google-explicit-constructor): it stands for the value
      : held_(std::make_shared<Held>(std::move(json))) {}

  SharedJson(const SharedJson& other);
  SharedJson& operator=(const SharedJson& other);
  SharedJson(SharedJson&&) noexcept = default;
  SharedJson& operator=(SharedJson&&) noexcept = default;
  ~SharedJson() = default;

  const nlohmann::json& operator*() const;
  const nlohmann::json* operator->() const { return &**this; }

  // The same value, held as text alone. Its texts must be UTF-8.
  SharedJson Packed() const;
  // Compact JSON, without parsing anything. Its texts must be UTF-8.
  std::shared_ptr<const std::string> Text() const;
  // True of an object or a list without entries. Parses nothing.
  bool empty() const;
  // False as long as it is held as text alone.
  bool is_parsed() const { return held_->is_parsed.load(std::memory_order_acquire); }

  bool operator==(const SharedJson& other) const {
    return held_ == other.held_ || **this == *other;
  }

 private:
  struct Held {
    explicit Held(nlohmann::json json) : value(std::move(json)), is_parsed(true) {}
    explicit Held(std::shared_ptr<const std::string> packed) : text(std::move(packed)) {}

    const std::shared_ptr<const std::string> text;  // null: the value was never packed
    std::once_flag parse;
    nlohmann::json value;  // if is_parsed
    std::atomic<bool> is_parsed{false};
  };

  explicit SharedJson(std::shared_ptr<Held> held) : held_(std::move(held)) {}

  std::shared_ptr<Held> held_;  // null of what was moved from
};

}  // namespace lockstep::api
