#include "trainer/nn/layer_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trainer/backend/activation_names.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMaxCount = 1 << 20;  // far above any use, far below overflow
const std::string kCountText = fmt::format("an integer in [1, {}]", kMaxCount);
const std::string kExtentText = fmt::format("{} or a pair [height, width] of them", kCountText);

nlohmann::json CountSchema() {
  return {{"type", "integer"}, {"format", "int64"}, {"minimum", 1}, {"maximum", kMaxCount}};
}

// An integer or a pair of them, which a structural schema cannot say by types. Each bound is of one
// type of value, and those of objects and strings allow none.
nlohmann::json ExtentSchema() {
  return {{"x-kubernetes-preserve-unknown-fields", true},
          {"minimum", 1},
          {"maximum", kMaxCount},
          {"minItems", 2},
          {"maxItems", 2},
          {"items", CountSchema()},
          {"maxProperties", 0},
          {"minLength", 1},
          {"maxLength", 0}};
}

// Allows both kinds of padding, as a field has one schema in all types of layers.
nlohmann::json PaddingSchema() {
  return {{"x-kubernetes-int-or-string", true},
          {"minimum", 0},
          {"maximum", kMaxCount},
          {"maxLength", 5},
          {"pattern", "^(valid|same)$"}};
}

std::vector<std::string> ActivationChoices() {
  std::vector<std::string> choices = {"linear"};
  for (const NamedActivation& entry : kActivations) choices.emplace_back(entry.name);
  choices.insert(choices.end(), {"softmax", "sigmoid"});
  return choices;
}

}  // namespace

const nlohmann::json LayerFields::kNoFields = nlohmann::json::object();

void LayerFields::Describe(std::string_view field, nlohmann::json schema) {
  if (properties_ != nullptr) (*properties_)[std::string(field)] = std::move(schema);
}

void LayerFields::Fault(std::string_view field, std::string_view expected) {
  reader_.Fault(reader_.Child(field), reader_.Find(field), expected);
}

bool LayerFields::IsCount(const nlohmann::json& value) const {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    const auto count = value.get<std::uint64_t>();
    return count >= 1 && count <= static_cast<std::uint64_t>(kMaxCount);
  }
  const auto count = value.get<std::int64_t>();
  return count >= 1 && count <= kMaxCount;
}

std::int64_t LayerFields::Count(std::string_view field) {
  Describe(field, CountSchema());
  const nlohmann::json* value = reader_.Find(field);
  if (value != nullptr && IsCount(*value)) return value->get<std::int64_t>();
  Fault(field, kCountText);
  return 0;
}

std::int64_t LayerFields::Count(std::string_view field, std::int64_t fallback) {
  Describe(field, CountSchema());
  return reader_.Find(field) == nullptr ? fallback : Count(field);
}

Extent2d LayerFields::Extent(std::string_view field) {
  if (reader_.Find(field) == nullptr) Fault(field, kExtentText);
  return Extent(field, {});
}

Extent2d LayerFields::Extent(std::string_view field, Extent2d fallback) {
  Describe(field, ExtentSchema());
  const nlohmann::json* value = reader_.Find(field);
  if (value == nullptr) return fallback;
  if (IsCount(*value)) return {value->get<std::int64_t>(), value->get<std::int64_t>()};
  if (value->is_array() && value->size() == 2 && IsCount((*value)[0]) && IsCount((*value)[1])) {
    return {(*value)[0].get<std::int64_t>(), (*value)[1].get<std::int64_t>()};
  }
  Fault(field, kExtentText);
  return fallback;
}

float LayerFields::Number(std::string_view field, double fallback, double low, double below) {
  Describe(field,
           {{"type", "number"}, {"minimum", low}, {"maximum", below}, {"exclusiveMaximum", true}});
  const nlohmann::json* value = reader_.Find(field);
  const auto as_float = static_cast<float>(fallback);
  if (value == nullptr) return as_float;
  const double number = value->is_number() ? value->get<double>() : below;
  if (!(number >= low && number < below)) {
    Fault(field, fmt::format("a number in [{}, {})", low, below));
    return as_float;
  }
  if (static_cast<double>(static_cast<float>(number)) < below) return static_cast<float>(number);
  Fault(field, fmt::format("a number that is below {} as a 32-bit float too", below));
  return as_float;
}

bool LayerFields::Flag(std::string_view field, bool fallback) {
  Describe(field, {{"type", "boolean"}});
  const nlohmann::json* value = reader_.Find(field);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fault(field, "true or false");
  return fallback;
}

std::size_t LayerFields::Choice(std::string_view field, const std::vector<std::string>& choices,
                                std::size_t fallback) {
  Describe(field, {{"type", "string"}, {"enum", choices}});
  const nlohmann::json* value = reader_.Find(field);
  if (value == nullptr) return fallback;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (*value == choices[i]) return i;
  }
  Fault(field, fmt::format("one of {}", fmt::join(choices, ", ")));
  return fallback;
}

std::string LayerFields::Text(std::string_view field) {
  const nlohmann::json* value = reader_.Find(field);
  if (value == nullptr) return "";
  if (value->is_string() && !value->get_ref<const std::string&>().empty()) {
    return value->get<std::string>();
  }
  Fault(field, "a text that is not empty");
  return "";
}

std::vector<std::string> LayerFields::Texts(std::string_view field) {
  const nlohmann::json* value = reader_.Find(field);
  if (value == nullptr) return {};
  std::vector<std::string> texts;
  if (value->is_array()) {
    for (const nlohmann::json& text : *value) {
      if (text.is_string()) texts.push_back(text.get<std::string>());
    }
    if (!texts.empty() && texts.size() == value->size()) return texts;
  }
  Fault(field, "a list of texts that is not empty");
  return {};
}

Padding LayerFields::PaddingField() {
  const std::size_t chosen = Choice("padding", {"valid", "same"}, 0);
  Describe("padding", PaddingSchema());
  return chosen == 1 ? Padding::kSame : Padding::kValid;
}

std::int64_t LayerFields::EdgePadding() {
  const nlohmann::json* value = reader_.Find("padding");
  const bool is_number = value != nullptr && (IsCount(*value) || *value == 0);
  if (value != nullptr && !is_number) {
    Fault("padding", fmt::format("an integer in [0, {}]", kMaxCount));
  }
  Describe("padding", PaddingSchema());
  return is_number ? value->get<std::int64_t>() : 1;
}

std::optional<LayerSpec> LayerFields::ActivationField() {
  const std::size_t chosen = Choice("activation", ActivationChoices(), 0);
  if (chosen == 0) return std::nullopt;
  if (chosen <= kActivations.size()) {
    return ActivationSpec{.activation = kActivations[chosen - 1].activation};
  }
  const bool is_softmax = chosen == kActivations.size() + 1;
  return OutputSpec{is_softmax ? OutputActivation::kSoftmax : OutputActivation::kSigmoid};
}

}  // namespace lockstep::train
