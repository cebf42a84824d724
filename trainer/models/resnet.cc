#include "trainer/models/resnet.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "base/check.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

class ResNetBuilder {
 public:
  explicit ResNetBuilder(bool zero_gamma) : zero_gamma_(zero_gamma) {}

  // A convolution without bias and a batch normalization; 0 < kernel is odd. Its output is as with
  // a padding of kernel / 2 on all sides.
  void ConvAndNorm(const std::string& name, const std::string& norm, std::int64_t filters,
                   std::int64_t kernel, std::int64_t stride) {
    const bool pads = stride > 1 && kernel > 1;  // where "same" would put fewer zeros first
    if (pads) Add({{"type", "ZeroPadding2D"}, {"name", name + "_pad"}, {"padding", kernel / 2}});
    Add({{"type", "Conv2D"},
         {"name", name},
         {"filters", filters},
         {"kernelSize", kernel},
         {"strides", stride},
         {"padding", pads ? "valid" : "same"},
         {"useBias", false}});
    Add({{"type", "BatchNormalization"}, {"name", norm}, {"momentum", 0.9}, {"epsilon", 1e-5}});
  }

  void Relu(const std::string& name) { Add({{"type", "ReLU"}, {"name", name}}); }

  void FirstPool() {
    Add({{"type", "ZeroPadding2D"}, {"name", "maxpool_pad"}, {"padding", 1}});
    Add({{"type", "MaxPooling2D"}, {"name", "maxpool"}, {"poolSize", 3}, {"strides", 2}});
  }

  // relu(body(x) + shortcut(x)), of two 3x3 convolutions or of a bottleneck, whose output has four
  // times `width` channels.
  void Block(const std::string& name, std::int64_t width, std::int64_t stride, bool bottleneck) {
    const std::string input = last_;
    const std::int64_t channels = bottleneck ? 4 * width : width;
    const auto part = [&](const char* text, int i) {
      return fmt::format("{}_{}{}", name, text, i);
    };
    ConvAndNorm(part("conv", 1), part("bn", 1), width, bottleneck ? 1 : 3, bottleneck ? 1 : stride);
    Relu(part("relu", 1));
    ConvAndNorm(part("conv", 2), part("bn", 2), width, 3, bottleneck ? stride : 1);
    if (bottleneck) {
      Relu(part("relu", 2));
      ConvAndNorm(part("conv", 3), part("bn", 3), channels, 1, 1);
    }
    if (zero_gamma_) layers_.back()["gammaInitializer"] = "zeros";
    const std::string body = last_;
    std::string shortcut = input;
    if (stride != 1 || channels != channels_) {
      from_ = input;
      ConvAndNorm(name + "_downsample_0", name + "_downsample_1", channels, 1, stride);
      shortcut = last_;
    }
    channels_ = channels;
    Add({{"type", "Add"}, {"name", name + "_add"}, {"inputs", {body, shortcut}}});
    Relu(name);
  }

  void Stage(const std::string& name, int blocks, std::int64_t width, std::int64_t stride,
             bool bottleneck) {
    for (int i = 0; i < blocks; ++i) {
      Block(fmt::format("{}_{}", name, i), width, i == 0 ? stride : 1, bottleneck);
    }
  }

  std::vector<json> Finish(std::int64_t classes) && {
    Add({{"type", "GlobalAveragePooling2D"}, {"name", "avgpool"}});
    Add({{"type", "Dense"}, {"name", "fc"}, {"units", classes}});
    return std::move(layers_);
  }

  void SetChannels(std::int64_t channels) { channels_ = channels; }

 private:
  // Adds a layer that reads from_, if that is set, else the layer before it.
  void Add(json layer) {
    if (!from_.empty()) layer["inputs"] = {std::exchange(from_, "")};
    last_ = layer.at("name");
    layers_.push_back(std::move(layer));
  }

  const bool zero_gamma_;
  std::vector<json> layers_;
  std::string last_, from_;
  std::int64_t channels_ = 0;  // of the last block
};

struct Depth {
  int depth;
  bool bottleneck;
  std::array<int, 4> blocks;
};
constexpr Depth kDepths[] = {{18, false, {2, 2, 2, 2}},
                             {34, false, {3, 4, 6, 3}},
                             {50, true, {3, 4, 6, 3}},
                             {101, true, {3, 4, 23, 3}},
                             {152, true, {3, 8, 36, 3}}};

const Depth& Find(int depth) {
  for (const Depth& entry : kDepths) {
    if (entry.depth == depth) return entry;
  }
  LOCKSTEP_CHECK(false, "resnet: a depth of {}, expected 18, 34, 50, 101 or 152", depth);
  return kDepths[0];
}

}  // namespace

std::vector<json> ResNet(int depth, std::int64_t classes, bool zero_gamma) {
  const Depth& found = Find(depth);
  ResNetBuilder builder(zero_gamma);
  builder.ConvAndNorm("conv1", "bn1", 64, 7, 2);
  builder.Relu("relu");
  builder.FirstPool();
  builder.SetChannels(64);
  std::int64_t width = 64;
  for (std::size_t stage = 0; stage < found.blocks.size(); ++stage, width *= 2) {
    builder.Stage(fmt::format("layer{}", stage + 1), found.blocks[stage], width, stage == 0 ? 1 : 2,
                  found.bottleneck);
  }
  return std::move(builder).Finish(classes);
}

std::vector<json> CifarResNet20(std::int64_t classes, bool zero_gamma) {
  ResNetBuilder builder(zero_gamma);
  builder.ConvAndNorm("conv1", "bn1", 16, 3, 1);
  builder.Relu("relu");
  builder.SetChannels(16);
  builder.Stage("layer1", 3, 16, 1, false);
  builder.Stage("layer2", 3, 32, 2, false);
  builder.Stage("layer3", 3, 64, 2, false);
  return std::move(builder).Finish(classes);
}

}  // namespace lockstep::train
