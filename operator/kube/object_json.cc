#include "operator/kube/object_json.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "operator/kube/cut_json.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kDeepest = 200;

// Builds the document as it is parsed (nlohmann's SAX interface), skipping what is not kept.
class ObjectBuilder {
 public:
  using number_integer_t = Object::number_integer_t;
  using number_unsigned_t = Object::number_unsigned_t;
  using number_float_t = Object::number_float_t;
  using string_t = Object::string_t;
  using binary_t = Object::binary_t;

  Object Take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  // The names that follow are nlohmann's.
  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(number_integer_t value) { return Put(value); }
  bool number_unsigned(number_unsigned_t value) { return Put(value); }
  bool number_float(number_float_t value, const string_t&) { return Put(value); }
  bool string(string_t& value) { return Put(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return Open(Object::object()); }
  bool start_array(std::size_t) { return Open(Object::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(string_t& name) {
    if (skipped_ > 0) return true;
    Level& level = levels_.back();
    if (level.is_metadata && name == "managedFields") {
      skip_next_ = true;
      return true;
    }
    next_is_metadata_ = name == "metadata";
    level.slot = &(*level.value)[std::move(name)];
    return true;
  }

  bool parse_error(std::size_t position, const string_t&, const Object::exception& error) {
    error_ = fmt::format("not JSON at byte {}: {}", position, error.what());
    return false;
  }

 private:
  struct Level {
    Object* value = nullptr;  // an object or an array
    Object* slot = nullptr;   // of an object: where the next value goes
    bool is_metadata = false;
  };

  template <typename Value>
  bool Put(Value&& value) {
    if (skipped_ == 0) {
      if (skip_next_) {
        skip_next_ = false;
      } else {
        Place(Object(std::forward<Value>(value)));
      }
    }
    return true;
  }

  Object* Place(Object value) {
    next_is_metadata_ = false;
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    *level.slot = std::move(value);
    return level.slot;
  }

  bool Open(Object empty) {
    if (skipped_ > 0 || skip_next_) {
      skip_next_ = false;
      ++skipped_;
      return CheckDepth();
    }
    const bool is_metadata = next_is_metadata_ && empty.is_object();
    Object* const value = Place(std::move(empty));
    levels_.push_back({value, nullptr, is_metadata});
    return CheckDepth();
  }

  bool Close() {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      levels_.pop_back();
    }
    return true;
  }

  bool CheckDepth() {
    if (levels_.size() + skipped_ <= kDeepest) return true;
    error_ = fmt::format("nested deeper than {} levels", kDeepest);
    return false;
  }

  Object root_;
  std::vector<Level> levels_;
  std::size_t skipped_ = 0;  // levels open below what is left out
  bool skip_next_ = false, next_is_metadata_ = false;
  std::string error_;
};

}  // namespace

absl::StatusOr<Object> ParseObject(std::string_view text,
                                   const std::vector<std::string>& unneeded) {
  // The library looks at every byte many times; most need no look at all.
  const std::string cut = CutJson(text, unneeded, kDeepest);
  if (!cut.empty()) text = cut;
  ObjectBuilder builder;
  if (!Object::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(builder.error());
  }
  return builder.Take();
}

}  // namespace lockstep::kube
