#include "api/v1/validate_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <string_view>

#include "api/v1/layer_schema.h"
#include "base/characters.h"
#include "base/json_reader.h"
#include "base/suggest.h"

namespace lockstep::api {
namespace {

using Strings = std::vector<std::string_view>;

IntegerRange Integers(const Json& schema) {
  return {schema.value("minimum", -kMaxJsonInteger), schema.value("maximum", kMaxJsonInteger)};
}

RealRange Reals(const Json& schema) {
  const RealRange any;
  return {schema.value("minimum", any.min), schema.value("maximum", any.max),
          schema.value("exclusiveMinimum", false), schema.value("exclusiveMaximum", false)};
}

bool HasSize(std::size_t size, const Json& schema, const char* least, const char* most) {
  return size >= schema.value(least, std::size_t{0}) &&
         size <= schema.value(most, std::numeric_limits<std::size_t>::max());
}

// Checks values of one layer, each by the schema of its field.
class LayerChecker {
 public:
  LayerChecker(JsonReader& reader, std::vector<FieldError>& errors)
      : reader_(reader), errors_(errors) {}

  void Check(const Json& value, const Json& schema, const std::string& path) {
    const std::string type = schema.value("type", std::string());
    if (type == "boolean") {
      bool read = false;
      reader_.Read(value, path, read);
    } else if (type == "integer") {
      reader_.ReadInteger(value, path, Integers(schema));
    } else if (type == "number") {
      double read = 0;
      reader_.Read(value, path, read, Reals(schema));
    } else if (type == "string") {
      CheckText(value, schema, path);
    } else if (type == "array") {
      CheckList(value, schema, path);
    } else {
      CheckEither(value, schema, path);
    }
  }

 private:
  void CheckText(const Json& value, const Json& schema, const std::string& path) {
    if (!value.is_string()) return reader_.Fault(path, &value, "a string");
    const auto& text = value.get_ref<const std::string&>();
    if (const auto choices = schema.find("enum"); choices != schema.end()) {
      const auto known = choices->get<Strings>();
      if (std::ranges::find(known, text) != known.end()) return;
      errors_.push_back({path, fmt::format("found \"{}\"; {}", text, SuggestName(text, known))});
    } else if (!HasSize(CharacterCount(text), schema, "minLength", "maxLength")) {
      reader_.Fault(
          path, &value,
          fmt::format("a string of {} to {} characters", schema.value("minLength", std::size_t{0}),
                      schema.at("maxLength").get<std::size_t>()));
    }
  }

  void CheckList(const Json& value, const Json& schema, const std::string& path) {
    if (!value.is_array()) return reader_.Fault(path, &value, "a list");
    if (!HasSize(value.size(), schema, "minItems", "maxItems")) {
      errors_.push_back({path, fmt::format("found {} values, expected {} to {}", value.size(),
                                           schema.value("minItems", std::size_t{0}),
                                           schema.at("maxItems").get<std::size_t>())});
      return;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      Check(value[i], schema.at("items"), fmt::format("{}[{}]", path, i));
    }
  }

  // The schema gives no `type` to a field that takes an integer or, instead, a list or a string;
  // see LayerFields of the trainer.
  void CheckEither(const Json& value, const Json& schema, const std::string& path) {
    const bool takes_lists = schema.contains("items");
    if (takes_lists && value.is_array()) return CheckList(value, schema, path);
    const std::string pattern = schema.value("pattern", std::string());
    if (!pattern.empty() && value.is_string() &&
        std::regex_match(value.get_ref<const std::string&>(), std::regex(pattern))) {
      return;
    }
    const IntegerRange range = Integers(schema);
    const std::optional<std::int64_t> number = IntegerOf(value);
    if (number && *number >= range.min && *number <= range.max) return;
    reader_.Fault(path, &value,
                  fmt::format("an integer from {} to {}, or {}", range.min, range.max,
                              takes_lists ? "a list of two of them, height and width"
                                          : "a string that matches " + pattern));
  }

  JsonReader& reader_;
  std::vector<FieldError>& errors_;
};

void ValidateLayer(const Json& layer, const std::string& path, std::vector<FieldError>& errors) {
  static const Json schema = Json::parse(kLayerSchema);
  JsonReader reader(layer, path, &errors);
  LayerChecker checker(reader, errors);
  for (const auto& [name, field] : schema.at("properties").items()) {
    const Json* value = reader.Find(name);
    if (value != nullptr) checker.Check(*value, field, reader.Child(name));
  }
  for (const Json& name : schema.at("required")) {
    const auto& required = name.get_ref<const std::string&>();
    if (reader.Find(required) == nullptr) {
      reader.Fault(reader.Child(required), nullptr, "a layer type, such as \"Dense\"");
    }
  }
  reader.RefuseOthers();
}

// Does nothing if `model` is no object with a list `layers`: either it has no layers, or another
// check has reported it.
void ValidateModelLayers(const Json& model, const std::string& path,
                         std::vector<FieldError>& errors) {
  if (!model.is_object() || !model.contains("layers") || !model.at("layers").is_array()) return;
  const Json& layers = model.at("layers");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].is_object()) continue;  // another check has reported it
    ValidateLayer(layers[i], fmt::format("{}.layers[{}]", path, i), errors);
  }
}

}  // namespace

std::vector<FieldError> ValidateLayers(const TrainingSpec& training, const std::string& path) {
  std::vector<FieldError> errors;
  ValidateModelLayers({{"layers", *training.model.layers}}, path + ".model", errors);
  const Json& variants = *training.variants;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (!variants[i].is_object() || !variants[i].contains("model")) continue;
    ValidateModelLayers(variants[i].at("model"), fmt::format("{}.variants[{}].model", path, i),
                        errors);
  }
  return errors;
}

}  // namespace lockstep::api
