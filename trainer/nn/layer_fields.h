// Reads one JSON object of `layers` field by field. Appends an error for each fault, including
// unknown fields. The same calls describe the fields for the CRD's schema.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/field_error.h"
#include "base/json_reader.h"
#include "trainer/backend/op_spec.h"
#include "trainer/nn/layer.h"

namespace lockstep::train {

struct Extent2d {
  std::int64_t h = 0, w = 0;
};

class LayerFields {
 public:
  // Requires: `json` is an object; `json` and `errors` outlive this.
  LayerFields(const nlohmann::json& json, std::string path, std::vector<FieldError>& errors)
      : reader_(json, std::move(path), &errors) {}
  // Reads an empty object and adds to `properties` each field's OpenAPI schema, by name, as the
  // fields are read. `errors` gets the faults of an empty object.
  LayerFields(nlohmann::json& properties, std::vector<FieldError>& errors)
      : reader_(kNoFields, "", &errors), properties_(&properties) {}

  // Field names must outlive this: they are literals.
  bool Has(std::string_view field) { return reader_.Find(field) != nullptr; }

  // Each returns the fallback (or zero) if the field is absent or faulty.
  std::int64_t Count(std::string_view field);  // required, at least 1
  std::int64_t Count(std::string_view field, std::int64_t fallback);
  Extent2d Extent(std::string_view field);  // required, n or [h, w]
  Extent2d Extent(std::string_view field, Extent2d fallback);
  // In [low, below), also after rounding to float.
  float Number(std::string_view field, double fallback, double low, double below);
  bool Flag(std::string_view field, bool fallback);
  // Returns the index of the value found in `choices`, which the message lists in this order.
  std::size_t Choice(std::string_view field, const std::vector<std::string>& choices,
                     std::size_t fallback);
  std::string Text(std::string_view field);                // "" if absent
  std::vector<std::string> Texts(std::string_view field);  // empty if absent
  Padding PaddingField();                                  // valid or same
  std::int64_t EdgePadding();  // "padding", too: a number of rows and columns, 1 if absent
  std::optional<LayerSpec> ActivationField();  // nullopt: "linear" or absent

  // Reports all fields not read so far as unknown. Call it last.
  void RefuseOthers() { reader_.RefuseOthers(); }
  void Fault(std::string_view field, std::string_view expected);

 private:
  static const nlohmann::json kNoFields;

  void Describe(std::string_view field, nlohmann::json schema);
  bool IsCount(const nlohmann::json& value) const;

  JsonReader reader_;
  nlohmann::json* properties_ = nullptr;  // null: reads only
};

}  // namespace lockstep::train
