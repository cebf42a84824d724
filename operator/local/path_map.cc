#include "operator/local/path_map.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace lockstep::local {
namespace {

using Json = nlohmann::ordered_json;

// JSON is printed by recursion, and a job may nest 100,000 lists in a value.
constexpr int kDeepest = 64;

// Returns nullopt for text that is no JSON object or list, or is nested deeper than kDeepest.
std::optional<Json> ParseShallow(std::string_view text) {
  if (text.empty() || (text.front() != '{' && text.front() != '[')) return std::nullopt;
  bool is_deep = false;
  const auto watch_depth = [&](int depth, Json::parse_event_t, Json&) {
    is_deep = is_deep || depth > kDeepest;
    return !is_deep;
  };
  Json json = Json::parse(text, watch_depth, /*allow_exceptions=*/false);
  if (is_deep || json.is_discarded()) return std::nullopt;
  return json;
}

// Characters that make "/data" part of a longer name.
bool IsPathCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ||
         c == '/';
}

}  // namespace

void PathMap::Add(std::string container_path, std::string host_path) {
  while (container_path.size() > 1 && container_path.back() == '/') container_path.pop_back();
  while (host_path.size() > 1 && host_path.back() == '/') host_path.pop_back();
  if (container_path == host_path) return;
  entries_.push_back({std::move(container_path), std::move(host_path)});
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.from.size() > b.from.size(); });
}

const PathMap::Entry* PathMap::Find(std::string_view text, std::size_t pos) const {
  if (text[pos] != '/' || (pos > 0 && IsPathCharacter(text[pos - 1]))) return nullptr;
  for (const Entry& entry : entries_) {
    if (text.compare(pos, entry.from.size(), entry.from) != 0) continue;
    const std::size_t end = pos + entry.from.size();
    if (end == text.size() || text[end] == '/' || !IsPathCharacter(text[end])) return &entry;
  }
  return nullptr;
}

std::string PathMap::RewriteText(std::string_view text) const {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (const Entry* entry = Find(text, i)) {
      out += entry->to;
      i += entry->from.size();
    } else {
      out += text[i++];
    }
  }
  return out;
}

bool PathMap::RewriteValues(Json& json) const {
  bool changed = false;
  if (json.is_string()) {
    auto& text = json.get_ref<std::string&>();
    std::string mapped = RewriteText(text);
    changed = mapped != text;
    text = std::move(mapped);
  } else if (json.is_structured()) {
    for (Json& child : json) changed |= RewriteValues(child);
  }
  return changed;
}

std::string PathMap::Rewrite(std::string_view text) const {
  if (entries_.empty()) return std::string(text);
  // Rewrites JSON value by value, so that it stays valid if a folder's name contains a quote.
  std::optional<Json> json = ParseShallow(text);
  if (!json) return RewriteText(text);
  return RewriteValues(*json) ? json->dump() : std::string(text);
}

}  // namespace lockstep::local
