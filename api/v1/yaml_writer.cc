// ToYaml: writes JSON as block YAML that YAML 1.1 readers (kubectl) and 1.2 readers read alike. The
// layout is kubectl's. yaml-cpp's emitter breaks more lines, so it only writes quoted scalars.
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "api/v1/yaml.h"
#include "base/printable.h"

namespace lockstep::api {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Returns true for words that YAML 1.1 reads as a boolean or null, in any case.
bool IsReservedWord(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  static constexpr std::string_view kWords[] = {"y",   "n",    "yes",   "no",  "on",
                                                "off", "true", "false", "null"};
  return std::ranges::find(kWords, text) != std::end(kWords);
}

// Returns true for text that every YAML reader reads as itself without quotes: names, paths,
// images.
bool IsPlain(const std::string& text) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const bool is_path = text.starts_with('/');
  const std::size_t start = text.starts_with("--") ? 2 : 0;  // of a flag's name
  if (!is_path && (text.size() == start || !is_letter(text[start]))) return false;
  if (text.back() == ':' || IsReservedWord(text)) return false;
  return std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./=@+:").find(c) != std::string_view::npos;
  });
}

bool IsPrintableAscii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// The escape sequence, in double quotes, of a character of at most three bytes.
std::string Escaped(std::string_view character) {
  const auto bits = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(character[i])) & 0x3FU;
  };
  if (character.size() == 1) return fmt::format("\\x{:02X}", static_cast<int>(character[0]));
  if (character.size() == 2) return fmt::format("\\u{:04X}", (bits(0) & 0x1FU) << 6U | bits(1));
  return fmt::format("\\u{:04X}", (bits(0) & 0xFU) << 12U | bits(1) << 6U | bits(2));
}

// Escapes control characters that yaml-cpp leaves in the text: printed, they would act on the
// reader's terminal. Requires: `quoted` is in double quotes.
std::string WithoutControls(std::string_view quoted) {
  std::string out;
  for (std::size_t i = 0; i < quoted.size();) {
    const std::size_t control = ControlLength(quoted.substr(i));
    out += control > 0 ? Escaped(quoted.substr(i, control)) : std::string(1, quoted[i]);
    i += control > 0 ? control : 1;
  }
  return out;
}

std::string Spell(const std::string& text) {
  if (IsPlain(text)) return text;
  const bool reads_better_single = text.find('"') != std::string::npos && IsPrintableAscii(text);
  YAML::Emitter quoted;
  quoted << (reads_better_single ? YAML::SingleQuoted : YAML::DoubleQuoted) << text;
  return reads_better_single ? quoted.c_str() : WithoutControls(quoted.c_str());
}

// Returns true for what fits after a key or a dash: a scalar or an empty collection.
bool IsInline(const OrderedJson& json) {
  return !json.is_structured() || json.empty();
}

std::string SpellInline(const OrderedJson& json) {
  // JSON and YAML spell numbers, true, false, null, {} and [] alike.
  return json.is_string() ? Spell(json.get_ref<const std::string&>()) : json.dump();
}

// Appends the lines of a non-empty collection. The first line continues the current one; the others
// are indented by `indent` spaces.
void Emit(std::string& out, const OrderedJson& json, std::size_t indent) {
  bool first = true;
  const auto start_line = [&] {
    if (!first) out.append(indent, ' ');
    first = false;
  };
  if (json.is_array()) {
    for (const OrderedJson& value : json) {
      start_line();
      out += "- ";
      if (IsInline(value)) {
        out += SpellInline(value) + "\n";
      } else {
        Emit(out, value, indent + 2);
      }
    }
    return;
  }
  for (const auto& [key, value] : json.items()) {
    start_line();
    out += Spell(key) + ":";
    if (IsInline(value)) {
      out += " " + SpellInline(value) + "\n";
      continue;
    }
    const std::size_t inner = value.is_array() ? indent : indent + 2;
    out += "\n" + std::string(inner, ' ');
    Emit(out, value, inner);
  }
}

}  // namespace

std::string ToYaml(const OrderedJson& json) {
  if (IsInline(json)) return SpellInline(json) + "\n";
  std::string out;
  Emit(out, json, 0);
  return out;
}

}  // namespace lockstep::api
