#include "api/v1/gpus.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace lockstep::api {

int GpusOf(const Json& container) {
  const Json* value = &container;
  for (const char* name : {"resources", "limits", "nvidia.com/gpu"}) {
    if (!value->is_object() || !value->contains(name)) return 0;
    value = &value->at(name);
  }
  if (value->is_number_integer()) {
    return static_cast<int>(std::clamp<std::int64_t>(value->get<std::int64_t>(), 0, kMostGpus));
  }
  int gpus = 0;
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), gpus);
  }
  return std::clamp(gpus, 0, kMostGpus);
}

}  // namespace lockstep::api
