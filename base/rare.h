// An optional value that is mostly absent.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace lockstep {

// As std::optional, but takes only a pointer's memory while there is no value: for large values
// that few of thousands of objects have. Copies copy the value. Thread-safe as std::optional is.
template <typename T>
class Rare {
 public:
  Rare() = default;
  Rare(std::nullopt_t) {}                                           // NOLINT: as std::optional
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT: as std::optional
  Rare(const Rare& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Rare(Rare&& other) noexcept = default;
  Rare& operator=(const Rare& other) {
    if (this != &other) *this = Rare(other);
    return *this;
  }
  Rare& operator=(Rare&& other) noexcept = default;
  ~Rare() = default;

  explicit operator bool() const { return value_ != nullptr; }
  bool has_value() const { return value_ != nullptr; }
  // These require a value.
  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }
  const T* operator->() const { return value_.get(); }
  T* operator->() { return value_.get(); }
  void reset() { value_.reset(); }

  friend bool operator==(const Rare& a, const Rare& b) {
    return a.has_value() == b.has_value() && (!a || *a == *b);
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace lockstep
