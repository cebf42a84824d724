#include "operator/cli/files/torch_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "api/v1/gpus.h"
#include "api/v1/names.h"
#include "operator/kube/object.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kField[] = "nprocPerNode";

// Kubeflow takes the number as a text, and in an elasticPolicy as a number.
std::optional<api::Json> AsNumber(const api::Json& value) {
  if (value.is_number_integer()) return value;
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional<api::Json>(number) : std::nullopt;
}

// Returns the container that Kubeflow tells of torchrun, null if there is none.
const api::Json* TorchContainer(const api::Json& replica) {
  const api::Json& pod = kube::Member(kube::Member(replica, "template"), "spec");
  for (const api::Json& container : kube::ListMember(pod, "containers")) {
    if (kube::TextMember(container, "name") == api::kPyTorchContainer) return &container;
  }
  return nullptr;
}

// Devices have names with a domain, which cpu, memory and the like have not.
std::vector<std::string> DevicesOf(const api::Json& container) {
  const api::Json& resources = kube::Member(container, "resources");
  std::vector<std::string> names;
  const api::Json& limits = kube::Member(resources, "limits");
  for (const auto& [name, quantity] : limits.items()) {
    if (name.find('/') != std::string::npos) names.push_back(name);
  }
  for (const api::Json& claim : kube::ListMember(resources, "claims")) {
    names.push_back(fmt::format("the claim {}", kube::TextMember(claim, "name")));
  }
  return names;
}

}  // namespace

void ConvertProcesses(Parts& source, const char* field, OrderedJson& to) {
  const auto processes = source.Take(field);
  if (!processes) return;
  if (const auto number = AsNumber(*processes)) {
    to["strategy"] = {{"type", "MultiWorkerMirrored"},
                      {"processesPerPod", OrderedJson::parse(number->dump())}};
  } else {
    source.NoteField(
        field, fmt::format("{} is left out: Lockstep's default is one process for each GPU of "
                           "the pod, or one without GPUs",
                           processes->dump()));
  }
}

void NoteUncountedProcesses(Parts& source, const OrderedJson& to) {
  if (to.contains("strategy")) return;
  const api::Json roles = api::Json::parse(to.at("replicaSpecs").dump());
  std::vector<std::string> uncounted, devices;
  for (const auto& [role, replica] : roles.items()) {
    const api::Json* container = TorchContainer(replica);
    if (container == nullptr || api::AcceleratorsOf(*container) > 0) continue;
    uncounted.push_back(role);
    for (std::string& device : DevicesOf(*container)) {
      if (std::ranges::find(devices, device) == devices.end()) devices.push_back(std::move(device));
    }
  }
  if (uncounted.empty()) return;
  source.NoteField(
      kField,
      fmt::format("torchrun starts one process in a pod of {}, whose limits have no GPU that is "
                  "counted{}; with Kubeflow's default, auto, it starts one for each device that it "
                  "finds, or for each core: set strategy.processesPerPod if there are to be more",
                  fmt::join(uncounted, " and "),
                  devices.empty() ? "" : fmt::format(" (found {})", fmt::join(devices, ", "))));
}

}  // namespace lockstep::cli
