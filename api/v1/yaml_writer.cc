// ToYaml: JSON as block YAML that YAML 1.1 readers (kubectl) and 1.2 readers take alike.
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "api/v1/yaml.h"

namespace lockstep::api {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Words that YAML 1.1 takes for a boolean or null; upper case too.
bool IsReservedWord(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  static constexpr std::string_view kWords[] = {"y",   "n",    "yes",   "no",  "on",
                                                "off", "true", "false", "null"};
  return std::ranges::find(kWords, text) != std::end(kWords);
}

// Text that no YAML reader takes for anything but itself without quotes: names, paths, images.
bool IsPlain(const std::string& text) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  if (text.empty() || (!is_letter(text.front()) && text.front() != '/')) return false;
  if (text.back() == ':' || IsReservedWord(text)) return false;
  return std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./=@+:").find(c) != std::string_view::npos;
  });
}

bool IsPrintable(const std::string& text) {
  return std::ranges::none_of(
      text, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; });
}

void EmitString(YAML::Emitter& out, const std::string& text) {
  if (!IsPlain(text)) {
    const bool reads_better_single = text.find('"') != std::string::npos && IsPrintable(text);
    out << (reads_better_single ? YAML::SingleQuoted : YAML::DoubleQuoted);
  }
  out << text;
}

void Emit(YAML::Emitter& out, const OrderedJson& json) {
  if (json.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, value] : json.items()) {
      out << YAML::Key;
      EmitString(out, key);
      out << YAML::Value;
      Emit(out, value);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    out << YAML::BeginSeq;
    for (const OrderedJson& value : json) Emit(out, value);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    EmitString(out, json.get_ref<const std::string&>());
  } else {
    out << json.dump();  // null, true, false and numbers are spelled alike in JSON and YAML
  }
}

}  // namespace

std::string ToYaml(const OrderedJson& json) {
  YAML::Emitter out;
  Emit(out, json);
  return std::string(out.c_str()) + "\n";
}

}  // namespace lockstep::api
