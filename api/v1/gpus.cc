#include "api/v1/gpus.h"

#include <algorithm>
#include <charconv>
#include <string>

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

}  // namespace

int GpusOf(const Json& container) {
  const Json* limits = &container;
  for (const char* name : {"resources", "limits"}) {
    if (!limits->is_object() || !limits->contains(name)) return 0;
    limits = &limits->at(name);
  }
  if (!limits->is_object()) return 0;
  if (limits->contains("nvidia.com/gpu")) {
    if (const int gpus = CountOf(limits->at("nvidia.com/gpu")); gpus > 0) return gpus;
  }
  for (const auto& [resource, quantity] : limits->items()) {
    if (IsPartOfGpu(resource) && CountOf(quantity) > 0) return 1;
  }
  return 0;
}

}  // namespace lockstep::api
