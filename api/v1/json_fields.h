// Reads and writes structs as JSON from one description of their fields.
//
// One function describes a struct, and both visitors walk it:
//   void Fields(auto& visit, Like<CheckpointSpec> auto& checkpoint) {
//     visit.Field("directory", checkpoint.directory);
//     visit.Field("keep", checkpoint.keep, AtLeast(1));
//   }
// FieldReader fills a struct and collects all errors; FieldWriter produces the JSON.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/v1/enum_names.h"
#include "api/v1/training_job.h"
#include "base/field_error.h"
#include "base/json_reader.h"

namespace lockstep::api {

// True if S is T or const T.
template <class S, class T>
concept Like = std::same_as<std::remove_const_t<S>, T>;

template <class E>
concept Enum = std::is_enum_v<E>;
template <class T>
concept Integer = std::same_as<T, int> || std::same_as<T, std::int64_t>;

// How many entries a list may have. A set has no two equal ones.
struct ListRange {
  std::size_t min, max;
  bool is_set = false;
};
constexpr ListRange SetOf(std::size_t min, std::size_t max) {
  return {min, max, true};
}
// How many characters a text may have.
struct TextRange {
  std::size_t min, max;
};

// The bound of a field that is kept as raw JSON: its value must be a list of objects.
struct ListOfObjects {};

enum class UnknownFields {
  kRefuse,
  kIgnore,
  // Like kIgnore, and clamps integers to their range. The sizes of lists and texts are not checked,
  // nor whether the entries of a set differ, because a newer API server may allow more.
  kIgnoreAndClamp,
};

// Reads one object of the input into a struct. A field that is absent leaves the struct's value
// unchanged.
class FieldReader : private JsonReader {
 public:
  // As JsonReader's constructor.
  FieldReader(const Json& json, std::string path, UnknownFields unknown,
              std::vector<FieldError>* errors)
      : JsonReader(json, std::move(path), errors), unknown_(unknown) {}

  template <class T, class... Bounds>
  void Field(std::string_view name, T& value, const Bounds&... bounds) {
    if (const Json* json = Find(name)) Read(*json, Child(name), value, bounds...);
  }
  // Like Field, for a field that the API server requires: FieldWriter writes it even if it is
  // empty. FieldReader does not report its absence.
  template <class T>
  void RequiredField(std::string_view name, T& value) {
    Field(name, value);
  }
  // Like Field, but ignores unknown fields below `name`, which are not ours to reject.
  template <class T>
  void LenientField(std::string_view name, T& value) {
    if (const Json* json = Find(name))
      ReadStruct(*json, Child(name), value, UnknownFields::kIgnore);
  }
  // Reports a field that is absent or is not the string `expected`.
  void Constant(std::string_view name, std::string_view expected);
  // Reports unknown fields with UnknownFields::kRefuse; otherwise does nothing. Call it after the
  // last field.
  void Finish();

 private:
  using JsonReader::Read;
  void Read(const Json& json, const std::string& path, Time& value);
  void Read(const Json& json, const std::string& path, Json& value);        // any object
  void Read(const Json& json, const std::string& path, SharedJson& value);  // any object, too
  void Read(const Json& json, const std::string& path, SharedJson& value, ListOfObjects bounds);
  void Read(const Json& json, const std::string& path, std::map<std::string, std::string>& value);
  void Read(const Json& json, const std::string& path, std::string& value, TextRange range);
  void CheckList(const Json& json, const std::string& path, ListRange range);
  std::optional<std::int64_t> ReadClampedInteger(const Json& json, const std::string& path,
                                                 IntegerRange range);
  void EnumFault(const std::string& path, const Json& found,
                 const std::vector<std::string_view>& names);

  template <Integer T>
  void Read(const Json& json, const std::string& path, T& value, IntegerRange range = {}) {
    range.min = std::max<std::int64_t>(range.min, std::numeric_limits<T>::min());
    range.max = std::min<std::int64_t>(range.max, std::numeric_limits<T>::max());
    if (const auto read = ReadClampedInteger(json, path, range)) value = static_cast<T>(*read);
  }

  template <Enum E>
  void Read(const Json& json, const std::string& path, E& value) {
    if (json.is_string()) {
      if (const E* found = FindByName<E>(json.get_ref<const std::string&>())) {
        value = *found;
        return;
      }
    }
    std::vector<std::string_view> names;
    for (const auto& entry : kEnumNames<E>) names.push_back(entry.second);
    EnumFault(path, json, names);
  }

  template <class T, class... Bounds>
  void Read(const Json& json, const std::string& path, std::optional<T>& value,
            const Bounds&... bounds) {
    T read{};
    const std::size_t before = errors().size();
    Read(json, path, read, bounds...);
    if (errors().size() == before) value = std::move(read);
  }

  template <class T, class... Bounds>
  void Read(const Json& json, const std::string& path, std::vector<T>& value,
            const Bounds&... bounds) {
    if (!json.is_array()) return Fault(path, &json, "a list");
    value.clear();
    for (std::size_t i = 0; i < json.size(); ++i) {
      T element{};
      Read(json[i], path + "[" + std::to_string(i) + "]", element, bounds...);
      value.push_back(std::move(element));
    }
  }

  template <class T, class... Bounds>
  void Read(const Json& json, const std::string& path, std::vector<T>& value,
            const ListRange& range, const Bounds&... bounds) {
    CheckList(json, path, range);
    Read(json, path, value, bounds...);
  }

  // An object whose keys are the names of an enum.
  template <Enum E, class T>
  void Read(const Json& json, const std::string& path, std::map<E, T>& value) {
    FieldReader entries(json, path, unknown_, &errors());
    for (const auto& [key, name] : kEnumNames<E>) {
      T entry{};
      if (const Json* found = entries.Find(name)) {
        Read(*found, entries.Child(name), entry);
        value[key] = std::move(entry);
      }
    }
    entries.Finish();
  }

  template <class T>
    requires std::is_class_v<T>
  void Read(const Json& json, const std::string& path, T& value) {
    ReadStruct(json, path, value, unknown_);
  }

  template <class T>
  void ReadStruct(const Json& json, const std::string& path, T& value, UnknownFields unknown) {
    FieldReader nested(json, path, unknown, &errors());
    Fields(nested, value);
    nested.Finish();
  }

  const UnknownFields unknown_;
};

// How FieldWriter treats a field that equals that of a default-constructed struct.
enum class Defaults { kWrite, kOmit };

// Collects the addresses of a struct's fields, in the order of Fields.
class FieldAddresses {
 public:
  template <class T, class... Bounds>
  void Field(std::string_view, const T& value, const Bounds&...) {
    addresses_.push_back(&value);
  }
  template <class T>
  void RequiredField(std::string_view name, const T& value) {
    Field(name, value);
  }
  template <class T>
  void LenientField(std::string_view, const T& value) {
    addresses_.push_back(&value);
  }
  void Constant(std::string_view, std::string_view) {}
  // The addresses of all fields except constants.
  const std::vector<const void*>& addresses() const { return addresses_; }

 private:
  std::vector<const void*> addresses_;
};

// Omits empty values unless they are required, values that JSON cannot represent (NaN), and structs
// that equal a default-constructed one. With Defaults::kOmit, it also omits every other field that
// has its default value.
class FieldWriter {
 public:
  template <class T, class... Bounds>
  void Field(std::string_view name, const T& value, const Bounds&...) {
    if (NextIsDefault(value) || IsOmitted(value)) return;
    Json json = Write(value);
    if (!json.is_null()) json_[std::string(name)] = std::move(json);
  }
  template <class T>
  void RequiredField(std::string_view name, const T& value) {
    (void)NextIsDefault(value);  // moves on to the next field
    json_[std::string(name)] = Write(value);
  }
  template <class T>
  void LenientField(std::string_view name, const T& value) {
    Field(name, value);
  }
  void Constant(std::string_view name, std::string_view value) {
    json_[std::string(name)] = std::string(value);
  }

  template <class T>
  static Json WriteStruct(const T& value, Defaults defaults = Defaults::kWrite) {
    const T untouched{};
    FieldAddresses fields;
    if (defaults == Defaults::kOmit) Fields(fields, untouched);
    FieldWriter writer(defaults, fields.addresses());
    Fields(writer, value);
    return std::move(writer.json_);
  }

 private:
  // `untouched` holds the addresses of a default-constructed struct's fields (none with
  // Defaults::kWrite). Both must outlive the writer.
  FieldWriter(Defaults defaults, const std::vector<const void*>& untouched)
      : defaults_(defaults), untouched_(untouched) {}

  // Must be called once per field, in the order of Fields.
  template <class T>
  bool NextIsDefault(const T& value) {
    return defaults_ == Defaults::kOmit && value == *static_cast<const T*>(untouched_[next_++]);
  }

  template <class T>
  static bool IsOmitted(const T& value) {
    if constexpr (requires { value.has_value(); }) {
      return !value.has_value();
    } else if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else if constexpr (std::is_class_v<T> && !std::same_as<T, Time>) {
      return value == T{};
    } else {
      return false;
    }
  }

  static Json Write(const Json& value) { return value; }
  static Json Write(const SharedJson& value) { return *value; }
  static Json Write(const std::string& value) { return value; }
  static Json Write(const std::map<std::string, std::string>& value) { return value; }
  static Json Write(const Time& value);
  // Returns null if JSON cannot hold the value.
  static Json Write(double value);
  static Json Write(bool value) { return value; }
  template <Integer T>
  static Json Write(T value) {
    return value;
  }
  template <Enum E>
  static Json Write(E value) {
    return std::string(NameOf(value));
  }
  template <class T>
  Json Write(const std::optional<T>& value) const {
    return Write(*value);
  }
  template <class T>
  Json Write(const std::vector<T>& value) const {
    Json list = Json::array();
    for (const T& element : value) list.push_back(Write(element));
    return list;
  }
  template <Enum E, class T>
  Json Write(const std::map<E, T>& value) const {
    Json object = Json::object();
    for (const auto& [key, entry] : value) object[std::string(NameOf(key))] = Write(entry);
    return object;
  }
  template <class T>
    requires std::is_class_v<T>
  Json Write(const T& value) const {
    return WriteStruct(value, defaults_);
  }

  const Defaults defaults_;
  const std::vector<const void*>& untouched_;
  std::size_t next_ = 0;  // index into `untouched_`
  Json json_ = Json::object();
};

// Reads a whole document. Returns the struct, or InvalidArgument with one line per error.
template <class T>
absl::StatusOr<T> ReadDocument(const Json& json, const std::string& path,
                               UnknownFields unknown = UnknownFields::kRefuse) {
  std::vector<FieldError> errors;
  T value{};
  FieldReader reader(json, path, unknown, &errors);
  Fields(reader, value);
  reader.Finish();
  if (!errors.empty()) return ToStatus(errors);
  return value;
}

}  // namespace lockstep::api
