// Makes simdjson return all errors as codes; throwing functions do not compile.
#define SIMDJSON_EXCEPTIONS 0

#include "operator/kube/rest/object_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/numbers.h"
#include "operator/kube/rest/valid_utf8.h"

namespace lockstep::kube {
namespace {

namespace ondemand = simdjson::ondemand;
using simdjson::error_code;
using JsonType = ondemand::json_type;

constexpr int kDeepest = 200;  // as kTooDeep says

// How to read a value.
struct Scope {
  const FieldMask* keep = nullptr;  // mask of its members, or of a list's entries; null: all
  bool is_metadata = false;
  bool is_item = false;  // an object with a limit for each member, or a list of such objects
};

// True for an integer that may not fit into 64 bits.
bool IsLargeInteger(std::string_view token) {
  const std::string_view digits = token.substr(token.starts_with('-') ? 1 : 0);
  return digits.size() > 18 && !digits.starts_with('0') &&
         digits.find_first_not_of("0123456789") == std::string_view::npos;
}

// simdjson 3.0 reads some doubles of more than 19 digits as 0.
error_code ReadDouble(std::string_view token, Object& into) {
  double value = 0;
  if (!absl::SimpleAtod({token.data(), token.size()}, &value) || !std::isfinite(value)) {
    return simdjson::NUMBER_ERROR;
  }
  into = value;
  return simdjson::SUCCESS;
}

// Reads a large integer as the nearest double: an API server writes whole doubles that way, and one
// such object must not end the watch of all.
error_code ReadNumber(ondemand::value& value, Object& into) {
  std::string_view token = value.raw_json_token();
  token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
  ondemand::number number;
  const error_code error = value.get_number().get(number);
  if (error != simdjson::SUCCESS) return IsLargeInteger(token) ? ReadDouble(token, into) : error;
  if (number.is_uint64()) {
    into = number.get_uint64();
  } else if (!number.is_int64()) {  // a fraction, or the "big integer" of newer simdjson versions
    return ReadDouble(token, into);
  } else if (const std::int64_t whole = number.get_int64(); whole < 0) {
    into = whole;
  } else {
    into = static_cast<std::uint64_t>(whole);
  }
  return simdjson::SUCCESS;
}

// Builds an Object from a simdjson document. simdjson finds the bounds of all values before any is
// read, so dropped values cost almost nothing.
class ObjectReader {
 public:
  ObjectReader(std::string_view under, const FieldMask* keep) : under_(under), keep_(keep) {}

  // Requires: `type` is an object or a list.
  error_code Read(ondemand::document& document, JsonType type, Object& into) {
    const Scope root{under_.empty() ? keep_ : nullptr, false, under_.empty()};
    if (type == JsonType::object) {
      ondemand::object members;
      if (const error_code error = document.get_object().get(members)) return error;
      return ReadMembers(members, root, into);
    }
    ondemand::array entries;
    if (const error_code error = document.get_array().get(entries)) return error;
    return ReadEntries(entries, root, into);
  }

 private:
  // Returns false if the member is dropped.
  bool Enter(const Scope& scope, std::string_view name, Scope& below) const {
    if (scope.is_metadata && name == "managedFields") return false;
    below.is_metadata = name == "metadata";
    // Metadata has its own limits: without its name and version, an event would end everybody's
    // watch.
    below.is_item = scope.is_item && below.is_metadata && !scope.is_metadata;
    if (depth_ == 1 && !under_.empty()) {
      below.is_item = name == under_;
      below.keep = below.is_item ? keep_ : nullptr;
      return true;
    }
    if (scope.keep == nullptr) return true;
    below.keep = scope.keep->Below(name);
    if (below.keep == nullptr) return false;
    if (below.keep->is_end()) below.keep = nullptr;
    return true;
  }

  error_code ReadMembers(ondemand::object members, const Scope& scope, Object& into) {
    ++depth_;
    into = Object::object();
    for (auto member : members) {
      if (scope.is_item) left_ = scope.is_metadata ? kMostInMetadata : kMostValues;
      std::string_view name;
      if (const error_code error = member.unescaped_key().get(name)) return error;
      Scope below;
      if (!Enter(scope, name, below)) continue;
      ondemand::value value;
      if (const error_code error = member.value().get(value)) return error;
      if (const error_code error = Read(value, below, into[std::string(name)])) return error;
      if (left_ < 0 && !scope.is_item) break;  // skips the rest
    }
    --depth_;
    if (scope.is_item) left_ = kMostValues;
    if (left_ < 0) into = kTooMany;
    return simdjson::SUCCESS;
  }

  error_code ReadEntries(ondemand::array entries, const Scope& scope, Object& into) {
    ++depth_;
    into = Object::array();
    for (auto entry : entries) {
      ondemand::value value;
      if (const error_code error = entry.get(value)) return error;
      const Scope below{scope.keep, false, scope.is_item};
      if (const error_code error = Read(value, below, into.emplace_back())) return error;
      if (left_ < 0) break;  // skips the rest
    }
    --depth_;
    if (left_ < 0) into = kTooMany;
    return simdjson::SUCCESS;
  }

  error_code Read(ondemand::value value, const Scope& scope, Object& into) {
    if (--left_ < 0) return simdjson::SUCCESS;  // the enclosing value becomes kTooMany
    JsonType type{};
    if (const error_code error = value.type().get(type)) return error;
    const bool is_nested = type == JsonType::object || type == JsonType::array;
    if (is_nested && depth_ == kDeepest) {  // skipped like a dropped value
      into = kTooDeep;
      return simdjson::SUCCESS;
    }
    switch (type) {
      case JsonType::object: {
        ondemand::object members;
        if (const error_code error = value.get_object().get(members)) return error;
        return ReadMembers(members, scope, into);
      }
      case JsonType::array: {
        ondemand::array entries;
        if (const error_code error = value.get_array().get(entries)) return error;
        return ReadEntries(entries, scope, into);
      }
      case JsonType::number:
        return ReadNumber(value, into);
      case JsonType::string: {
        std::string_view text;
        if (const error_code error = value.get_string().get(text)) return error;
        into = text;
        return simdjson::SUCCESS;
      }
      case JsonType::boolean: {
        bool is_true = false;
        if (const error_code error = value.get_bool().get(is_true)) return error;
        into = is_true;
        return simdjson::SUCCESS;
      }
      case JsonType::null: {
        bool is_null = false;
        if (const error_code error = value.is_null().get(is_null)) return error;
        into = nullptr;
        return is_null ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
      }
    }
    return simdjson::UNEXPECTED_ERROR;
  }

  const std::string_view under_;
  const FieldMask* const keep_;
  int depth_ = 0;           // open objects and lists
  int left_ = kMostValues;  // values that may still be read of the present member of an item
};

absl::Status ErrorOf(error_code error, ondemand::document& document, const char* text) {
  const char* place = nullptr;
  if (document.current_location().get(place) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(fmt::format("not JSON: {}", simdjson::error_message(error)));
  }
  return absl::InvalidArgumentError(
      fmt::format("not JSON before byte {}: {}", place - text, simdjson::error_message(error)));
}

}  // namespace

absl::StatusOr<Object> ParseObject(std::string_view text) {
  return ParseObject(text, "", nullptr);
}

absl::StatusOr<Object> ParseObject(std::string_view text, std::string_view under,
                                   const FieldMask* keep) {
  simdjson::padded_string padded(text);
  ondemand::parser parser;
  ondemand::document document;
  JsonType type{};
  error_code error = parser.iterate(padded).get(document);
  if (error == simdjson::UTF8_ERROR) {
    // JSON's structural characters are never invalid bytes, so the bounds of values do not move.
    ReplaceInvalidUtf8(padded.data(), padded.size());
    error = parser.iterate(padded).get(document);
  }
  if (error == simdjson::SUCCESS) error = document.type().get(type);
  if (error != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(fmt::format("not JSON: {}", simdjson::error_message(error)));
  }
  if (type != JsonType::object && type != JsonType::array) {
    return absl::InvalidArgumentError("neither an object nor a list");
  }
  Object object;
  error = ObjectReader(under, keep).Read(document, type, object);
  const bool is_at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (error == simdjson::SUCCESS && !is_at_end) error = simdjson::TRAILING_CONTENT;
  if (error != simdjson::SUCCESS) return ErrorOf(error, document, padded.data());
  return object;
}

}  // namespace lockstep::kube
