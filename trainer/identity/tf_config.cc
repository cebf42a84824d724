// Parses TF_CONFIG as TensorFlow's TFConfigClusterResolver does, but strictly. See identity.h.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/v1/names.h"
#include "base/json_text.h"
#include "base/status.h"
#include "trainer/identity/identity.h"
#include "trainer/identity/parse_text.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool IsHost(std::string_view host) {
  if (host.empty()) return false;
  if (host.front() == '[') {
    return host.size() > 2 && host.back() == ']' &&
           host.find_first_not_of("0123456789abcdefABCDEF:.%", 1) == host.size() - 1;
  }
  for (const char c : host) {
    if (!IsHostCharacter(c)) return false;
  }
  return true;
}

absl::Status CheckAddress(const std::string& field, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string_view text = address;
  const bool has_port = colon != std::string::npos;
  const std::optional<int> port = has_port ? ParseInt(text.substr(colon + 1)) : std::nullopt;
  if (!port || *port < 1 || *port > 65535 || !IsHost(text.substr(0, colon))) {
    return Invalid(
        fmt::format("TF_CONFIG: {}: found \"{}\", expected host:port with a port of 1 to "
                    "65535 (IPv6 in brackets)",
                    field, address));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParseAddress(const std::string& field, const json& value) {
  if (!value.is_string()) {
    return Invalid(fmt::format("TF_CONFIG: {}: found {}, expected a string \"host:port\"", field,
                               JsonText(value)));
  }
  const std::string address = value.get<std::string>();
  LOCKSTEP_RETURN_IF_ERROR(CheckAddress(field, address));
  return address;
}

// Parses one role's addresses: a list, or a sparse map from index to address.
absl::StatusOr<std::vector<std::string>> ParseAddresses(const std::string& field,
                                                        const json& value) {
  std::vector<std::string> addresses;
  if (!value.is_array() && !value.is_object()) {
    return Invalid(fmt::format("TF_CONFIG: {}: found {}, expected a list of \"host:port\"", field,
                               JsonText(value)));
  }
  for (const auto& [key, item] : value.items()) {
    const std::optional<int> index = ParseInt(key);
    if (!index || *index < 0 || *index > kMaxIndex) {
      return Invalid(
          fmt::format("TF_CONFIG: {}: found the key \"{}\", expected an index of 0 to {}", field,
                      key, kMaxIndex));
    }
    const auto at = static_cast<std::size_t>(*index);
    if (addresses.size() <= at) addresses.resize(at + 1);
    LOCKSTEP_ASSIGN_OR_RETURN(addresses[at], ParseAddress(fmt::format("{}[{}]", field, key), item));
  }
  return addresses;
}

template <typename Spec>
auto* AddressesOf(Spec& spec, api::Role role) {
  switch (role) {
    case api::Role::kChief:
      return &spec.chief;
    case api::Role::kWorker:
      return &spec.worker;
    case api::Role::kParameterServer:
      return &spec.ps;
    case api::Role::kEvaluator:
      break;
  }
  return &spec.evaluator;
}

absl::Status ParseCluster(const json& config, ClusterSpec& spec) {
  if (!config.contains("cluster")) return Invalid("TF_CONFIG: cluster is missing");
  const json& cluster = config["cluster"];
  if (!cluster.is_object() || cluster.empty()) {
    return Invalid(
        fmt::format("TF_CONFIG: cluster: found {}, expected an object with one list of "
                    "addresses for each of chief, worker, ps, evaluator",
                    JsonText(cluster)));
  }
  std::map<std::string, std::string> seen;  // address -> field
  for (const auto& [name, value] : cluster.items()) {
    const std::string field = "cluster." + name;
    const std::optional<api::Role> role = api::RoleFromName(name);
    if (!role) {
      return Invalid(fmt::format(
          "TF_CONFIG: {}: unknown role, expected chief, worker, ps or evaluator", field));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(auto addresses, ParseAddresses(field, value));
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      if (addresses[i].empty()) continue;  // omitted from a sparse map
      const auto [at, fresh] = seen.emplace(addresses[i], fmt::format("{}[{}]", field, i));
      if (!fresh) {
        return Invalid(fmt::format("TF_CONFIG: {}[{}] and {} are both {}; addresses must differ",
                                   field, i, at->second, addresses[i]));
      }
    }
    *AddressesOf(spec, *role) = std::move(addresses);
  }
  if (spec.chief.size() > 1) {
    return Invalid(fmt::format("TF_CONFIG: cluster.chief has {} addresses, at most one is allowed",
                               spec.chief.size()));
  }
  return absl::OkStatus();
}

absl::Status ParseTask(const json& config, ClusterSpec& spec) {
  const json task = config.value("task", json());
  if (!task.is_object()) {
    return Invalid(
        fmt::format("TF_CONFIG: task: found {}, expected {{\"type\": role, \"index\": number}}",
                    JsonText(task)));
  }
  const json type = task.value("type", json());
  const auto role =
      type.is_string() ? api::RoleFromName(type.get<std::string>()) : std::optional<api::Role>();
  if (!role) {
    return Invalid(fmt::format(
        "TF_CONFIG: task.type: found {}, expected chief, worker, ps or evaluator", JsonText(type)));
  }
  const json index_value = task.value("index", json());
  const std::optional<int> index =
      ParseInt(index_value.is_string() ? index_value.get<std::string>() : index_value.dump());
  const std::vector<std::string>& peers = *AddressesOf(spec, *role);
  if (!index || *index < 0 || static_cast<std::size_t>(*index) >= peers.size() ||
      peers[static_cast<std::size_t>(*index)].empty()) {
    return Invalid(
        fmt::format("TF_CONFIG: task.index: found {}, expected the index of one of the {} "
                    "addresses of cluster.{}",
                    JsonText(index_value), peers.size(), api::RoleName(*role)));
  }
  spec.task_role = *role;
  spec.task_index = *index;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterSpec> ParseTfConfig(const std::string& text) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json config, ParseJson(api::kEnvTfConfig, text));
  if (!config.is_object()) {
    return Invalid(fmt::format("TF_CONFIG: found {}, expected an object", JsonText(config)));
  }
  ClusterSpec spec;
  LOCKSTEP_RETURN_IF_ERROR(ParseCluster(config, spec));
  LOCKSTEP_RETURN_IF_ERROR(ParseTask(config, spec));
  return spec;
}

}  // namespace lockstep::train
