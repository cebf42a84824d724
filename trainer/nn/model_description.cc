#include "trainer/nn/model_description.h"

#include <fmt/format.h>

#include "base/json_text.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

// The limit of one extent, and of all together: that of one tensor (see compile.cc).
constexpr std::int64_t kLargestExtent = 2147483647;

bool IsExtent(const Json& json) {
  return json.is_number_integer() && json > 0 && json <= kLargestExtent;
}

bool IsShape(const Json& json) {
  if (!json.is_array() || (json.size() != 1 && json.size() != 3)) return false;
  double elements = 1;
  for (const Json& extent : json) {
    if (!IsExtent(extent)) return false;
    elements *= extent.get<double>();
  }
  return elements <= static_cast<double>(kLargestExtent);
}

std::optional<DType> ElementNamed(const Json& name) {
  for (const DType element : {DType::kUInt8, DType::kFloat32}) {
    if (name == DTypeName(element)) return element;
  }
  return std::nullopt;
}

absl::Status FieldFault(const Json& json, const char* field, const char* expected) {
  return absl::InvalidArgumentError(
      fmt::format("model.{}: found {}, expected {}", field,
                  json.contains(field) ? JsonText(json[field]) : std::string("nothing"), expected));
}

}  // namespace

nlohmann::json DescriptionToJson(const ModelDescription& model) {
  Json json = {{"layers", model.layers}, {"input", model.input.dims()}, {"outputs", model.outputs}};
  if (model.element) json["element"] = DTypeName(*model.element);
  return json;
}

absl::StatusOr<ModelDescription> DescriptionFromJson(const nlohmann::json& json) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("model: found {}, expected an object", JsonText(json)));
  }
  const Json layers = json.value("layers", Json());
  if (!layers.is_array()) return FieldFault(json, "layers", "a list");
  const Json input = json.value("input", Json());
  if (!IsShape(input)) {
    return FieldFault(json, "input", "[C,H,W] or [F], positive numbers");
  }
  if (!IsExtent(json.value("outputs", Json()))) {
    return FieldFault(json, "outputs", "a positive number");
  }
  std::optional<DType> element;
  if (json.contains("element")) {  // not in those of earlier versions
    element = ElementNamed(json["element"]);
    if (!element) return FieldFault(json, "element", "\"uint8\" or \"float32\"");
  }
  return ModelDescription{.layers = layers.get<std::vector<Json>>(),
                          .input = Shape(input.get<std::vector<std::int64_t>>()),
                          .element = element,
                          .outputs = json["outputs"].get<std::int64_t>()};
}

}  // namespace lockstep::train
