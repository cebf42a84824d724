#include "api/v1/gpus.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>

namespace lockstep::api {

namespace {

int CountOf(const Json& quantity) {
  if (quantity.is_number_integer()) {
    return static_cast<int>(std::clamp<std::int64_t>(quantity.get<std::int64_t>(), 0, kMostGpus));
  }
  int count = 0;
  if (quantity.is_string()) {
    const auto& text = quantity.get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), count);
  }
  return std::clamp(count, 0, kMostGpus);
}

// As NVIDIA's device plugin names them: slices of its strategy `mixed`, and shares that it renames.
bool IsPartOfGpu(const std::string& resource) {
  return resource == "nvidia.com/gpu.shared" || resource.starts_with("nvidia.com/mig-");
}

// As the device plugins of AMD, Intel and Habana name them. Intel's other resources of a GPU, such
// as i915_monitoring, are no device more.
bool IsOtherAccelerator(const std::string& resource) {
  constexpr std::string_view kNames[] = {"amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe",
                                         "habana.ai/gaudi"};
  if (std::ranges::find(kNames, resource) != std::end(kNames)) return true;
  return resource.starts_with("amd.com/") && resource.find("_nps") != std::string::npos;
}

const Json& LimitsOf(const Json& container) {
  static const Json kNone = Json::object();
  const Json* limits = &container;
  for (const char* name : {"resources", "limits"}) {
    if (!limits->is_object() || !limits->contains(name)) return kNone;
    limits = &limits->at(name);
  }
  return limits->is_object() ? *limits : kNone;
}

}  // namespace

int GpusOf(const Json& container) {
  const Json& limits = LimitsOf(container);
  if (limits.contains("nvidia.com/gpu")) {
    if (const int gpus = CountOf(limits.at("nvidia.com/gpu")); gpus > 0) return gpus;
  }
  for (const auto& [resource, quantity] : limits.items()) {
    if (IsPartOfGpu(resource) && CountOf(quantity) > 0) return 1;
  }
  return 0;
}

int AcceleratorsOf(const Json& container) {
  int found = GpusOf(container);
  if (found > 0) return found;
  for (const auto& [resource, quantity] : LimitsOf(container).items()) {
    if (IsOtherAccelerator(resource)) found = std::min(found + CountOf(quantity), kMostGpus);
  }
  return found;
}

}  // namespace lockstep::api
