#include "operator/kube/object_json.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

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

  ObjectBuilder(std::string_view under, const FieldTree* keep) : under_(under), keep_(keep) {}

  Object Take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  // The names that follow are nlohmann's.
  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(number_integer_t value) { return Put(value); }
  bool number_unsigned(number_unsigned_t value) { return Put(value); }
  bool number_float(number_float_t value, const string_t&) { return Put(value); }
  // A copy: what the parser hands over has room for twice as much, which a cache would keep.
  bool string(string_t& value) { return Put(std::string_view(value)); }
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
    if (!EntersMember(level, name)) return true;
    next_is_metadata_ = name == "metadata";
    level.slot = &(*level.value)[name];
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
    const FieldTree* keep = nullptr;  // of the members, or of a list's entries; null: all
  };

  // False if the member is left out.
  bool EntersMember(const Level& level, const string_t& name) {
    if (levels_.size() == 1 && !under_.empty()) {
      next_keep_ = name == under_ ? keep_ : nullptr;
      return true;
    }
    next_keep_ = level.keep == nullptr ? nullptr : level.keep->Below(name);
    if (level.keep == nullptr || next_keep_ != nullptr) {
      if (next_keep_ != nullptr && next_keep_->is_end()) next_keep_ = nullptr;
      return true;
    }
    skip_next_ = true;
    return false;
  }

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
    next_keep_ = nullptr;
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
    const bool is_entry = !levels_.empty() && levels_.back().value->is_array();
    const FieldTree* keep = is_entry ? levels_.back().keep : std::exchange(next_keep_, nullptr);
    if (levels_.empty() && under_.empty()) keep = keep_;
    Object* const value = Place(std::move(empty));
    levels_.push_back({value, nullptr, is_metadata, keep});
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

  const std::string_view under_;
  const FieldTree* const keep_;
  const FieldTree* next_keep_ = nullptr;  // of the value that follows
  Object root_;
  std::vector<Level> levels_;
  std::size_t skipped_ = 0;  // levels open below what is left out
  bool skip_next_ = false, next_is_metadata_ = false;
  std::string error_;
};

// The position after the array that begins at `begin`; npos if it does not end.
std::size_t EndOfArray(std::string_view text, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') ++depth;
    if (c == ']' && --depth == 0) return i + 1;
    if (c != '"') continue;
    do {  // to the string's end
      i = text.find_first_of("\\\"", i + 1);
      if (i == std::string_view::npos) return i;
    } while (text[i] == '\\' && ++i > 0);
  }
  return std::string_view::npos;
}

// The text with empty managedFields. They are half of it, and skipping them unparsed is many times
// faster. Within a string the quotes would be escaped, so what is found is a key; what an API
// server spells otherwise, the builder leaves out. `cut` holds the text if there was any to cut.
std::string_view CutManagedFields(std::string_view text, std::string& cut) {
  constexpr std::string_view kKey = "\"managedFields\":";
  constexpr std::string_view kFields = "\"managedFields\":[{\"manager\":\"";
  while (true) {
    const std::size_t key = text.find(kFields);
    if (key == std::string_view::npos) break;
    const std::size_t end = EndOfArray(text, key + kKey.size());
    if (end == std::string_view::npos) break;
    cut.append(text.substr(0, key + kKey.size())).append("[]");
    text.remove_prefix(end);
  }
  if (cut.empty()) return text;
  return cut.append(text);
}

}  // namespace

absl::StatusOr<Object> ParseObject(std::string_view text) {
  return ParseObject(text, "", nullptr);
}

absl::StatusOr<Object> ParseObject(std::string_view text, std::string_view under,
                                   const FieldTree* keep) {
  ObjectBuilder builder(under, keep);
  std::string cut;
  if (!Object::sax_parse(CutManagedFields(text, cut), &builder)) {
    return absl::InvalidArgumentError(builder.error());
  }
  return builder.Take();
}

}  // namespace lockstep::kube
