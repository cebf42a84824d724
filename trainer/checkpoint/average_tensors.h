// The average of the parameters, which model.safetensors may have beside them: see format.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace lockstep::train {

// What the name of a parameter's average ends with, after the parameter's own. No parameter's name
// ends so, whatever its layer is called.
inline constexpr std::string_view kAverageSuffix = "/average";

inline bool IsAverage(std::string_view name) {
  return name.ends_with(kAverageSuffix);
}
inline std::string AverageOf(std::string_view parameter) {
  return std::string(parameter) + std::string(kAverageSuffix);
}

// Returns the tensors that are evaluated and exported: each average in the place of its parameter.
std::vector<NamedTensor> WithAverages(std::vector<NamedTensor> model);

}  // namespace lockstep::train
