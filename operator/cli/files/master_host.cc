#include "operator/cli/files/master_host.h"

#include <fmt/format.h>

#include <cctype>
#include <string>
#include <string_view>

#include "absl/strings/match.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct HostNames {
  std::string from;
  std::string to;
};

bool HasMaster(const kube::Object& spec) {
  for (const char* field : {"tfReplicaSpecs", "pytorchReplicaSpecs"}) {
    const auto replicas = spec.find(field);
    if (replicas == spec.end() || !replicas->is_object()) continue;
    for (const auto& [role, replica] : replicas->items()) {
      if (absl::EqualsIgnoreCase(role, "master")) return true;
    }
  }
  return false;
}

bool IsPartOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool IsWholeHost(std::string_view before, std::string_view after) {
  const bool in_url = before.ends_with("//");
  if (!in_url && (before.ends_with('/') || after.starts_with('/'))) return false;  // a path
  return (before.empty() || !IsPartOfName(before.back())) &&
         (after.empty() || !IsPartOfName(after.front()));
}

bool Rename(const HostNames& names, OrderedJson& value) {
  if (!value.is_string()) return false;
  auto& text = value.get_ref<std::string&>();
  bool found = false;
  for (std::size_t at = text.find(names.from); at != std::string::npos;
       at = text.find(names.from, at + 1)) {
    const std::string_view view = text;
    if (!IsWholeHost(view.substr(0, at), view.substr(at + names.from.size()))) continue;
    text.replace(at, names.from.size(), names.to);
    found = true;
  }
  return found;
}

bool RenameInContainer(const HostNames& names, OrderedJson& container) {
  bool found = false;
  for (const char* field : {"command", "args", "env"}) {
    const auto entries = container.find(field);
    if (entries == container.end() || !entries->is_array()) continue;
    for (OrderedJson& entry : *entries) {
      if (entry.is_object() && entry.contains("value")) found |= Rename(names, entry["value"]);
      found |= Rename(names, entry);
    }
  }
  return found;
}

}  // namespace

bool RenameMasterHost(const kube::Object& job, OrderedJson& spec) {
  const std::string name = kube::Name(job);
  if (name.empty() || !HasMaster(job.at("spec"))) return false;
  const HostNames names{fmt::format("{}-master-0", name), fmt::format("{}-chief-0", name)};
  bool found = false;
  for (OrderedJson& replica : spec.at("replicaSpecs")) {
    for (const char* kind : {"initContainers", "containers"}) {
      const OrderedJson::json_pointer path(fmt::format("/template/spec/{}", kind));
      if (!replica.contains(path) || !replica.at(path).is_array()) continue;
      for (OrderedJson& container : replica.at(path)) {
        if (container.is_object()) found |= RenameInContainer(names, container);
      }
    }
  }
  return found;
}

}  // namespace lockstep::cli
