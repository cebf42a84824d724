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
  Layers (*layers)(std::int64_t classes, bool zero_gamma);
};
// A model without residual blocks.
template <Layers (*kModel)(std::int64_t classes)>
Layers Plain(std::int64_t classes, bool /*zero_gamma*/) {
  return kModel(classes);
}
template <int kDepth>
Layers ResNetOf(std::int64_t classes, bool zero_gamma) {
  return ResNet(kDepth, classes, zero_gamma);
}
constexpr Entry kModels[] = {{"mlp", Plain<Mlp>},
                             {"simple-cnn", Plain<SimpleCnn>},
                             {"core-cnn", Plain<CoreCnn>},
                             {"resnet-18", ResNetOf<18>},
                             {"resnet-34", ResNetOf<34>},
                             {"resnet-50", ResNetOf<50>},
                             {"resnet-101", ResNetOf<101>},
                             {"resnet-152", ResNetOf<152>},
                             {"cifar-resnet-20", CifarResNet20}};

}  // namespace

absl::StatusOr<std::vector<json>> BundledModel(const std::string& name, std::int64_t classes,
                                               bool zero_gamma) {
  for (const Entry& entry : kModels) {
    if (name == entry.name) return entry.layers(classes, zero_gamma);
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
