// ParseYaml: converts yaml-cpp's events to JSON. Events carry line and column, and allow aliases to
// be counted before they are copied.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "api/v1/yaml.h"
#include "api/v1/yaml_scalar.h"

namespace lockstep::api {
namespace {

constexpr std::size_t kLongestText = 4U << 20;  // bytes; the API server's own limit is 3 MiB
constexpr int kDeepest = 100;                   // nested collections
// The largest size of a stream with its anchors and aliases expanded (stops a "billion laughs").
constexpr std::size_t kLargestResult = 16U << 20;
constexpr std::size_t kNodeWeight = 64;  // bytes charged per node, besides its text
constexpr char kTags[] = "tag:yaml.org,2002:";

// A value and the cost of copying it.
struct Node {
  Json json;
  std::size_t weight = kNodeWeight;
  int height = 0;  // 0: a scalar
};

// Throws, since yaml-cpp offers no other way out of an event handler. ParseYaml catches it.
[[noreturn]] void Refuse(const YAML::Mark& mark, const std::string& message) {
  throw YAML::ParserException(mark, message);
}

// yaml-cpp passes on any bytes, but JSON can only hold UTF-8.
bool IsText(const std::string& bytes) {
  try {
    (void)Json(bytes).dump();
  } catch (const Json::type_error&) {
    return false;
  }
  return true;
}

// yaml-cpp reads each of the escapes "\N" and "\_" as the last byte of its character alone. In a
// text that is UTF-8 otherwise, a byte that continues no character is one of these.
std::string CompleteEscapes(const std::string& bytes) {
  std::string text;
  int rest = 0;  // bytes that continue the character
  for (const char byte : bytes) {
    const int ones = std::countl_one(static_cast<unsigned char>(byte));
    const bool continues = ones == 1;
    if (continues && rest == 0) text += '\xC2';
    rest = std::max((continues ? rest : ones) - 1, 0);
    text += byte;
  }
  return text;
}

// Requires an escape "\uXXXX" at `at`.
unsigned CodeUnit(std::string_view json, std::size_t at) {
  unsigned unit = 0;
  std::from_chars(json.data() + at + 2, json.data() + at + 6, unit, 16);
  return unit;
}

// JSON writes a character beyond U+FFFF as two escapes, of which yaml-cpp refuses each. Makes them
// one of YAML's. Requires JSON, where each backslash begins an escape, and no surrogate is alone.
std::string JoinSurrogates(std::string_view json) {
  std::string joined;
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t length = json[at] == '\\' ? 2 : 1;
    const unsigned high = json.substr(at, 2) == "\\u" ? CodeUnit(json, at) : 0;
    if (high >= 0xD800 && high <= 0xDBFF) {
      const unsigned low = CodeUnit(json, at + 6);
      joined += fmt::format("\\U{:08X}", 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
      at += 12;
    } else {
      joined += json.substr(at, length);
      at += length;
    }
  }
  return joined;
}

class JsonBuilder final : public YAML::EventHandler {
 public:
  // `is_text`: whether the stream is UTF-8.
  explicit JsonBuilder(bool is_text) : is_text_(is_text) {}
  std::vector<Json> Take() { return std::move(documents_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp does not consume any token of a document that starts with ',' or ']', and would read
    // it forever.
    if (mark.pos == document_start_) Refuse(mark, "found a character that starts no value");
    document_start_ = mark.pos;
    anchors_.clear();
    stack_.clear();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    // Empty keys, and keys spelled null or ~.
    if (ExpectsKey()) Refuse(mark, "found a null key, expected a name");
    Add(mark, anchor, Node{nullptr});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Refuse(mark, "found an alias inside what it stands for");
    if (ExpectsKey()) Refuse(mark, "found an alias as a key, expected a name");
    if (ExpectsMerge() && !found->second.json.is_object()) {
      RefuseMerge(mark, found->second.json);  // a list must stand here itself
    }
    Charge(mark, found->second.weight);
    if (static_cast<int>(stack_.size()) + found->second.height > kDeepest) RefuseDepth(mark);
    Add(mark, YAML::NullAnchor, found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& bytes) override {
    const std::string text = Text(mark, bytes);
    if (ExpectsKey()) {
      SetKey(mark, text, text == "<<" && (tag == "?" || tag == fmt::format("{}merge", kTags)));
      return;
    }
    Node node{Resolve(mark, tag, text)};
    node.weight += text.size();
    Charge(mark, node.weight);
    Add(mark, anchor, std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, "seq", anchor, Json::array());
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, "map", anchor, Json::object());
  }
  void OnMapEnd() override {
    Merge(stack_.back());
    Close();
  }

 private:
  struct OpenNode {
    Node node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    YAML::Mark begin;
    bool has_key = false;
    bool key_merges = false;
    std::string key;
    std::optional<Json> merged;  // the value of the key `<<`: a list of maps
  };

  std::string Text(const YAML::Mark& mark, const std::string& bytes) const {
    if (IsText(bytes)) return bytes;
    std::string text = CompleteEscapes(bytes);
    if (!is_text_ || !IsText(text)) Refuse(mark, "found bytes that are not UTF-8");
    return text;
  }

  bool ExpectsKey() const {
    return !stack_.empty() && stack_.back().node.json.is_object() && !stack_.back().has_key;
  }

  bool ExpectsMerge() const {
    return !stack_.empty() && stack_.back().has_key && stack_.back().key_merges;
  }

  [[noreturn]] static void RefuseMerge(const YAML::Mark& mark, const Json& found) {
    Refuse(mark, fmt::format("found a value of type {} for <<, expected a map or a list of maps",
                             found.type_name()));
  }

  [[noreturn]] static void RefuseDepth(const YAML::Mark& mark) {
    Refuse(mark, fmt::format("nested deeper than {} levels", kDeepest));
  }

  void Charge(const YAML::Mark& mark, std::size_t weight) {
    total_ += weight;
    if (total_ > kLargestResult) Refuse(mark, "too large with its anchors and aliases expanded");
  }

  void SetKey(const YAML::Mark& mark, const std::string& key, bool merges) {
    OpenNode& map = stack_.back();
    if (merges ? map.merged.has_value() : map.node.json.contains(key)) {
      Refuse(mark, fmt::format("duplicate key \"{}\"", key));
    }
    Charge(mark, key.size());
    map.node.weight += key.size();
    map.key = key;
    map.has_key = true;
    map.key_merges = merges;
  }

  // Takes the value of the key `<<`. By YAML's definition a map's own keys win wherever they stand,
  // but kubectl lets << replace those before it, and so would create another job.
  static void SetMerged(const YAML::Mark& mark, Json value, OpenNode& map) {
    if (value.is_object()) value = Json::array({std::move(value)});
    if (!value.is_array()) RefuseMerge(mark, value);
    for (const Json& one : value) {
      if (!one.is_object()) RefuseMerge(mark, one);
      for (const auto& [key, unused] : one.items()) {
        if (!map.node.json.contains(key)) continue;
        Refuse(mark, fmt::format("found << behind \"{0}\", which it has, too; expected it first: "
                                 "kubectl would let it replace \"{0}\"",
                                 key));
      }
    }
    map.merged = std::move(value);
  }

  // Fills in what the map lacks, from the earlier ones of the list first.
  static void Merge(OpenNode& map) {
    if (!map.merged) return;
    for (const Json& one : *map.merged) map.node.json.insert(one.begin(), one.end());
  }

  static Json Resolve(const YAML::Mark& mark, const std::string& tag, const std::string& text) {
    if (tag == "!" || tag == fmt::format("{}str", kTags)) return text;  // quoted, or !!str
    const std::optional<Json> value = ResolvePlainScalar(text);
    if (!value) Refuse(mark, fmt::format("found {}, which JSON cannot hold", text));
    if (tag == "?" || tag.empty()) return *value;
    if (tag == fmt::format("{}int", kTags) && value->is_number_integer()) return *value;
    if (tag == fmt::format("{}float", kTags) && value->is_number()) return value->get<double>();
    if (tag == fmt::format("{}bool", kTags) && value->is_boolean()) return *value;
    Refuse(mark, fmt::format("found tag {} on \"{}\", which it does not fit", tag, text));
  }

  void Open(const YAML::Mark& mark, const std::string& tag, const char* kind, YAML::anchor_t anchor,
            Json empty) {
    const bool plain = tag.empty() || tag == "?" || tag == "!";
    if (!plain && tag != fmt::format("{}{}", kTags, kind)) {
      Refuse(mark, fmt::format("found tag {}, expected none", tag));
    }
    if (ExpectsKey()) Refuse(mark, "found a collection as a key, expected a name");
    if (static_cast<int>(stack_.size()) >= kDeepest) RefuseDepth(mark);
    Charge(mark, kNodeWeight);
    OpenNode open;
    open.node = Node{std::move(empty), kNodeWeight, 1};
    open.anchor = anchor;
    open.begin = mark;
    stack_.push_back(std::move(open));
  }

  void Close() {
    OpenNode closed = std::move(stack_.back());
    stack_.pop_back();
    Add(closed.begin, closed.anchor, std::move(closed.node));
  }

  void Add(const YAML::Mark& mark, YAML::anchor_t anchor, Node node) {
    if (anchor != YAML::NullAnchor) {
      Charge(mark, node.weight);  // the copy that is kept for aliases
      anchors_[anchor] = node;
    }
    if (stack_.empty()) {
      if (!node.json.is_null()) documents_.push_back(std::move(node.json));
      return;
    }
    OpenNode& parent = stack_.back();
    parent.node.weight += node.weight;
    parent.node.height = std::max(parent.node.height, node.height + 1);
    if (parent.node.json.is_array()) {
      parent.node.json.push_back(std::move(node.json));
    } else {
      parent.has_key = false;
      if (parent.key_merges) {
        SetMerged(mark, std::move(node.json), parent);
      } else {
        parent.node.json[parent.key] = std::move(node.json);
      }
    }
  }

  bool is_text_;
  std::vector<Json> documents_;
  std::vector<OpenNode> stack_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t total_ = 0;
  int document_start_ = -1;  // of the latest document
};

}  // namespace

absl::StatusOr<std::vector<Json>> ParseYaml(std::string_view text, std::string_view source) {
  if (text.size() > kLongestText) {
    return absl::InvalidArgumentError(
        fmt::format("{}: found {} bytes, expected at most {}", source, text.size(), kLongestText));
  }
  std::string yaml(text);
  const bool is_text = IsText(yaml);
  if (Json::accept(yaml)) yaml = JoinSurrogates(yaml);
  std::istringstream stream(std::move(yaml));
  JsonBuilder builder(is_text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}:{}: {}", source, error.mark.line + 1, error.mark.column + 1, error.msg));
  }
  return builder.Take();
}

}  // namespace lockstep::api
