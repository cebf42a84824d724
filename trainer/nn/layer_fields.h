// Reads one JSON object of `layers` field by field. Appends a line to `errors` for each fault,
// including unknown fields. The same calls describe the fields for the CRD's schema.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trainer/backend/op_spec.h"
#include "trainer/nn/layer.h"

namespace lockstep::train {

struct Extent2d {
  std::int64_t h = 0, w = 0;
};

// Formats a value for a message: replaces invalid UTF-8 and truncates long values.
std::string JsonText(const nlohmann::json& value);

class LayerFields {
 public:
  // Requires: `json` is an object; `json` and `errors` outlive this.
  LayerFields(const nlohmann::json& json, std::string path, std::vector<std::string>& errors)
      : json_(json), path_(std::move(path)), errors_(errors) {}
  // Reads an empty object and adds to `properties` each field's OpenAPI schema, by name, as the
  // fields are read. `errors` gets the faults of an empty object.
  LayerFields(nlohmann::json& properties, std::vector<std::string>& errors)
      : json_(kNoFields), errors_(errors), properties_(&properties) {}

  bool Has(const std::string& field) { return Find(field) != nullptr; }

  // Each returns the fallback (or zero) if the field is absent or faulty.
  std::int64_t Count(const std::string& field);  // required, at least 1
  std::int64_t Count(const std::string& field, std::int64_t fallback);
  Extent2d Extent(const std::string& field);  // required, n or [h, w]
  Extent2d Extent(const std::string& field, Extent2d fallback);
  // In [low, below), also after rounding to float.
  float Number(const std::string& field, double fallback, double low, double below);
  bool Flag(const std::string& field, bool fallback);
  // Returns the index of the value found in `choices`, which the message lists in this order.
  std::size_t Choice(const std::string& field, const std::vector<std::string>& choices,
                     std::size_t fallback);
  std::string Text(const std::string& field);                // "" if absent
  std::vector<std::string> Texts(const std::string& field);  // empty if absent
  Padding PaddingField();                                    // valid or same
  std::int64_t EdgePadding();  // "padding", too: a number of rows and columns, 1 if absent
  std::optional<LayerSpec> ActivationField();  // nullopt: "linear" or absent

  // Reports all fields not read so far as unknown. Call it last.
  void RefuseOthers();
  void Fault(const std::string& field, const std::string& expected);

 private:
  static const nlohmann::json kNoFields;

  const nlohmann::json* Find(const std::string& field);
  void Describe(const std::string& field, nlohmann::json schema);
  bool IsCount(const nlohmann::json& value) const;

  const nlohmann::json& json_;
  std::string path_;
  std::vector<std::string>& errors_;
  std::set<std::string> known_;
  nlohmann::json* properties_ = nullptr;  // null: reads only
};

}  // namespace lockstep::train
