// Reads JSON strictly, and says of each value that is wrong what was found and what was expected.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/field_error.h"

namespace lockstep {

// The largest integer that every JSON reader holds exactly (2^53 - 1).
inline constexpr std::int64_t kMaxJsonInteger = 9'007'199'254'740'991;

struct IntegerRange {
  std::int64_t min = -kMaxJsonInteger, max = kMaxJsonInteger;
};
constexpr IntegerRange AtLeast(std::int64_t min) {
  return {min, kMaxJsonInteger};
}

struct RealRange {
  double min = std::numeric_limits<double>::lowest(), max = std::numeric_limits<double>::max();
  bool min_excluded = false, max_excluded = false;
};
constexpr RealRange Above(double min) {
  return {min, std::numeric_limits<double>::max(), true, false};
}
constexpr RealRange NotBelow(double min) {
  return {min, std::numeric_limits<double>::max()};
}

// Returns the value of an integer of at most kMaxJsonInteger; nullopt for everything else, also for
// a number with a decimal point or an exponent, although the API server takes 1.0 for 1. Does not
// check how negative the integer is: ReadInteger does.
std::optional<std::int64_t> IntegerOf(const nlohmann::json& json);

// Appends "found …, expected …"; a null `found` is "nothing".
void AppendFault(std::string path, const nlohmann::json* found, std::string_view expected,
                 std::vector<FieldError>& errors);

// Reads the fields of one object and appends an error for each fault. As in Kubernetes, a field
// that is null is absent.
class JsonReader {
 public:
  // `json` and `errors` must outlive the reader. `path` is empty at the root. A value that is not
  // an object is a fault, and has no fields.
  JsonReader(const nlohmann::json& json, std::string path, std::vector<FieldError>* errors);

  // Returns the field, or null if it is absent. `name` must outlive the reader.
  const nlohmann::json* Find(std::string_view name);
  std::string Child(std::string_view name) const;  // the field's path
  // Reports each field that was never looked for, with a suggestion. Call it after the last Find.
  void RefuseOthers();

  // As AppendFault.
  void Fault(std::string path, const nlohmann::json* found, std::string_view expected);

  // Each reads one value. If it is not as expected, reports a fault, and leaves `value` unchanged
  // or returns nullopt.
  void Read(const nlohmann::json& json, const std::string& path, bool& value);
  void Read(const nlohmann::json& json, const std::string& path, std::string& value);
  void Read(const nlohmann::json& json, const std::string& path, double& value,
            RealRange range = {});
  std::optional<std::int64_t> ReadInteger(const nlohmann::json& json, const std::string& path,
                                          IntegerRange range);

 protected:
  bool is_object() const { return object_ != nullptr; }
  std::vector<FieldError>& errors() { return *errors_; }

 private:
  const nlohmann::json* object_;  // null if the input is not an object
  std::string path_;
  std::vector<FieldError>* errors_;
  std::vector<std::string_view> known_;
};

}  // namespace lockstep
