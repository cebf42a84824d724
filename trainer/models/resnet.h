// The residual networks among the bundled models, as layer lists.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace lockstep::train {

// ResNet-18, 34, 50, 101 or 152 (He, Zhang, Ren and Sun, "Deep residual learning for image
// recognition", 2016, table 1) in the form that is called v1.5: a bottleneck's 3x3 convolution has
// the stride, as in torchvision. A convolution whose stride is 2, and the first pool, read the same
// zeros on all sides, as there. Names are torchvision's with "_" for ".": "layer1_0_conv1". Any
// image of at least 1x1. `zero_gamma`: the last batch normalization of each block begins with
// gamma 0, so that a block begins as its shortcut (Goyal et al., "Accurate, large minibatch SGD",
// 2017, section 5.1; torchvision's zero_init_residual). Throws CheckFailure for another depth.
std::vector<nlohmann::json> ResNet(int depth, std::int64_t classes, bool zero_gamma = false);

// The ResNet-20 of section 4.2, for images of 32x32: three stages of three blocks of 16, 32 and 64
// channels. Shortcuts between stages are 1x1 convolutions (option B), as in Keras' example.
std::vector<nlohmann::json> CifarResNet20(std::int64_t classes, bool zero_gamma = false);

}  // namespace lockstep::train
