#include "operator/local/path_map.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::local {
namespace {

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

std::string PathMap::Rewrite(std::string_view text) const {
  if (entries_.empty()) return std::string(text);
  // Rewrites JSON value by value, so that it stays valid if a folder's name contains a quote.
  if (!text.empty() && (text.front() == '{' || text.front() == '[')) {
    using Json = nlohmann::ordered_json;
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_discarded()) {
      bool changed = false;
      const std::function<void(Json&)> visit = [&](Json& value) {
        if (value.is_string()) {
          std::string mapped = RewriteText(value.get_ref<const std::string&>());
          changed = changed || mapped != value.get_ref<const std::string&>();
          value = std::move(mapped);
        } else if (value.is_structured()) {
          for (Json& child : value) visit(child);
        }
      };
      visit(json);
      return changed ? json.dump() : std::string(text);
    }
  }
  return RewriteText(text);
}

}  // namespace lockstep::local
