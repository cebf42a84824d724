#include "operator/kube/rest/resource_path.h"

#include <fmt/format.h>

#include <string_view>

namespace lockstep::kube {

std::string PercentEncode(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string Query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string query;
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    query += query.empty() ? '?' : '&';
    query += PercentEncode(name);
    query += '=';
    query += PercentEncode(value);
  }
  return query;
}

absl::Status CheckKey(const Kind& kind, const Key& key) {
  const auto check = [&](const char* what, const std::string& text) {
    const bool is_segment = !text.empty() && text != "." && text != ".." &&
                            text.find_first_of("/%") == std::string::npos;
    if (is_segment) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}: found the {} \"{}\", expected one that can stand in a path", kind.plural, what, text));
  };
  if (const absl::Status name = check("name", key.name); !name.ok()) return name;
  return kind.namespaced ? check("namespace", key.namespace_name) : absl::OkStatus();
}

std::string CollectionPath(const Kind& kind, const std::string& namespace_name) {
  std::string path = kind.group.empty() ? "/api/" : "/apis/" + kind.group + "/";
  path += kind.version;
  if (kind.namespaced && !namespace_name.empty()) {
    path += "/namespaces/" + PercentEncode(namespace_name);
  }
  return path + "/" + kind.plural;
}

std::string ObjectPath(const Kind& kind, const Key& key) {
  return CollectionPath(kind, key.namespace_name) + "/" + PercentEncode(key.name);
}

std::string Describe(const char* verb, const Kind& kind, const Key& key) {
  std::string text = fmt::format("{} {}", verb, kind.plural);
  const std::string separator = key.namespace_name.empty() || key.name.empty() ? "" : "/";
  if (!key.namespace_name.empty() || !key.name.empty()) {
    text += " " + key.namespace_name + separator + key.name;
  }
  return text;
}

}  // namespace lockstep::kube
