#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/models/models.h"
#include "trainer/models/resnet.h"

namespace lockstep::train {
namespace {

using nlohmann::json;
using Layers = std::vector<json>;

json Conv2d(std::int64_t filters, std::int64_t kernel, const char* padding) {
  return {{"type", "Conv2D"},
          {"filters", filters},
          {"kernelSize", kernel},
          {"padding", padding},
          {"activation", "relu"}};
}
json MaxPool2d() {
  return {{"type", "MaxPooling2D"}, {"poolSize", 2}};
}
json Flatten() {
  return {{"type", "Flatten"}};
}
json Dense(std::int64_t units) {
  return {{"type", "Dense"}, {"units", units}};
}
json DenseRelu(std::int64_t units) {
  return {{"type", "Dense"}, {"units", units}, {"activation", "relu"}};
}

Layers Mlp(std::int64_t classes) {
  return {Flatten(), DenseRelu(128), Dense(classes)};
}

Layers SimpleCnn(std::int64_t classes) {
  return {Conv2d(32, 3, "valid"), MaxPool2d(), Flatten(), Dense(classes)};
}

Layers CoreCnn(std::int64_t classes) {
  return {Conv2d(32, 5, "same"), MaxPool2d(),   Conv2d(64, 5, "same"), MaxPool2d(), Flatten(),
          DenseRelu(1024),       Dense(classes)};
}

struct Entry {
  const char* name;
  Layers (*layers)(std::int64_t classes);
};
template <int kDepth>
Layers ResNetOf(std::int64_t classes) {
  return ResNet(kDepth, classes);
}
constexpr Entry kModels[] = {{"mlp", Mlp},
                             {"simple-cnn", SimpleCnn},
                             {"core-cnn", CoreCnn},
                             {"resnet-18", ResNetOf<18>},
                             {"resnet-34", ResNetOf<34>},
                             {"resnet-50", ResNetOf<50>},
                             {"resnet-101", ResNetOf<101>},
                             {"resnet-152", ResNetOf<152>},
                             {"cifar-resnet-20", CifarResNet20}};

}  // namespace

absl::StatusOr<std::vector<json>> BundledModel(const std::string& name, std::int64_t classes) {
  for (const Entry& entry : kModels) {
    if (name == entry.name) return entry.layers(classes);
  }
  return absl::InvalidArgumentError(fmt::format("model.name: found \"{}\", expected one of {}",
                                                name, fmt::join(BundledModelNames(), ", ")));
}

std::vector<std::string> BundledModelNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

}  // namespace lockstep::train
