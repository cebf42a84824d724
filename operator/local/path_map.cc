#include "operator/local/path_map.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "operator/local/plain_links.h"

namespace lockstep::local {
namespace {

using Json = nlohmann::json;

bool IsJsonObjectOrList(std::string_view text) {
  return !text.empty() && (text.front() == '{' || text.front() == '[') && Json::accept(text);
}

// Returns the string that begins at `pos`, with its quotes.
std::string_view StringAt(std::string_view json, std::size_t pos) {
  std::size_t end = pos + 1;
  while (json[end] != '"') end += json[end] == '\\' ? 2 : 1;
  return json.substr(pos, end + 1 - pos);
}

// Whether the string that ends before `pos` is the name of a field.
bool IsNameBefore(std::string_view json, std::size_t pos) {
  const std::size_t next = json.find_first_not_of(" \t\r\n", pos);
  return next != std::string_view::npos && json[next] == ':';
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
  // One that maps a path to itself counts too: a mount above it must not apply there.
  entries_.push_back({std::move(container_path), host_path, host_path});
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.from.size() > b.from.size(); });
}

absl::Status PathMap::UseLinks(
    const std::function<absl::StatusOr<std::string>(const std::string&)>& link) {
  for (Entry& entry : entries_) {
    // One that maps a path to itself has the characters in the job, too.
    if (entry.from == entry.in_text) continue;
    const bool in_json = !IsUtf8(entry.in_json);
    if (!in_json && !HasShellCharacters(entry.in_text)) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(entry.in_text, link(entry.in_text));
    if (in_json) entry.in_json = entry.in_text;
  }
  return absl::OkStatus();
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

std::string PathMap::RewriteText(std::string_view text, std::string Entry::* to) const {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (const Entry* entry = Find(text, i)) {
      out += entry->*to;
      i += entry->from.size();
    } else {
      out += text[i++];
    }
  }
  return out;
}

// String by string, so that it stays JSON if a folder's name contains a quote. In one pass, and
// without the values in memory: a job may nest 100,000 lists, or have as many fields.
std::string PathMap::RewriteJson(std::string_view json) const {
  std::string out;
  for (std::size_t i = 0; i < json.size();) {
    if (json[i] != '"') {
      out += json[i++];
      continue;
    }
    const std::string_view string = StringAt(json, i);
    i += string.size();
    const auto text = Json::parse(string).get<std::string>();
    const std::string mapped = IsNameBefore(json, i) ? text : RewriteText(text, &Entry::in_json);
    out +=
        mapped == text ? string : Json(mapped).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return out;
}

std::string PathMap::Rewrite(std::string_view text) const {
  if (entries_.empty()) return std::string(text);
  return IsJsonObjectOrList(text) ? RewriteJson(text) : RewriteText(text, &Entry::in_text);
}

}  // namespace lockstep::local
