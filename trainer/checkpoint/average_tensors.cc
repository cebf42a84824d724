#include "trainer/checkpoint/average_tensors.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::train {

std::vector<NamedTensor> WithAverages(std::vector<NamedTensor> model) {
  std::map<std::string, std::vector<float>> averages;  // by their own names
  for (NamedTensor& tensor : model) {
    if (IsAverage(tensor.name)) averages[tensor.name] = std::move(tensor.data);
  }
  std::erase_if(model, [](const NamedTensor& tensor) { return IsAverage(tensor.name); });
  for (NamedTensor& tensor : model) {
    const auto average = averages.find(AverageOf(tensor.name));
    if (average != averages.end()) tensor.data = std::move(average->second);
  }
  return model;
}

}  // namespace lockstep::train
