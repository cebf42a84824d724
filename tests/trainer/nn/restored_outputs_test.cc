#include "trainer/nn/restored_outputs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/nn/tested_model.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

constexpr std::int64_t kRestoredRows = 4, kRestoredClasses = 3;
const Shape kRestoredInput = {8, 16, 16};

json Conv(const std::string& input) {
  return LayerJson("Conv2D", {{"filters", 8},
                              {"kernelSize", 3},
                              {"padding", "same"},
                              {"useBias", false},
                              {"inputs", {input}}});
}

// Blocks x -> relu(norm(conv(x)) + x). The relu is part of the op of the sum.
std::vector<json> Residual(int blocks) {
  std::vector<json> layers;
  std::string before = "input";
  for (int i = 0; i < blocks; ++i) {
    const std::string block = std::to_string(i);
    const auto add = [&](json layer, const std::string& name) {
      layer["name"] = name + block;
      layers.push_back(std::move(layer));
    };
    add(Conv(before), "conv");
    add(LayerJson("BatchNormalization"), "norm");
    add(LayerJson("Add", {{"inputs", {"norm" + block, before}}}), "sum");
    add(LayerJson("ReLU"), "out");
    before = "out" + block;
  }
  layers.push_back(LayerJson("GlobalAveragePooling2D"));
  layers.push_back(LayerJson("Dense", {{"units", kRestoredClasses}}));
  return layers;
}

class RestoredOutputsTest : public ::testing::Test {
 protected:
  // The names of the ops that are restored.
  std::vector<std::string> Restored(const std::vector<json>& layers, Recomputation recomputation,
                                    int depth) {
    const ModelOptions options{
        .batch = kRestoredRows, .input = kRestoredInput, .classes = kRestoredClasses};
    const auto ops =
        CompileLayers(FuseLayers(ParseLayers(layers).value()), options, *backend_).value();
    const std::vector<bool> restored = ChooseRestored(ops, recomputation, depth);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (restored[i]) names.push_back(ops[i].name);
    }
    return names;
  }

  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cpu"});
};

using Names = std::vector<std::string>;

TEST_F(RestoredOutputsTest, NothingIsRestoredUnlessAskedFor) {
  EXPECT_EQ(Restored(Residual(3), Recomputation::kNone, 8), Names{});
}

// A convolution reads its input in the backward pass, so each sum is wanted there, too.
TEST_F(RestoredOutputsTest, SelectiveRestoresWhatLittleWorkMakesFromWhatIsKept) {
  const std::string pool = "global_average_pooling2d";
  EXPECT_EQ(Restored(Residual(3), Recomputation::kSelective, 1),
            (Names{"norm0", "norm1", "norm2", pool}));
  // The second block's sum needs the first's, which takes two restorations already.
  EXPECT_EQ(Restored(Residual(3), Recomputation::kSelective, 2),
            (Names{"norm0", "sum0", "norm1", "norm2", "sum2"}));
}

TEST_F(RestoredOutputsTest, FullRestoresConvolutionsToo) {
  EXPECT_EQ(Restored(Residual(2), Recomputation::kFull, 3),
            (Names{"conv0", "norm0", "sum0", "norm1", "global_average_pooling2d"}));
}

// The convolution's output is not kept: only the sum reads it, whose backward pass does not.
TEST_F(RestoredOutputsTest, NothingIsRestoredFromWhatIsGone) {
  std::vector<json> layers = {Conv("input"), LayerJson("Add", {{"inputs", {"conv2d", "conv2d"}}}),
                              Conv("add"), LayerJson("GlobalAveragePooling2D"),
                              LayerJson("Dense", {{"units", kRestoredClasses}})};
  EXPECT_EQ(Restored(layers, Recomputation::kSelective, 8), Names{});
}

TEST_F(RestoredOutputsTest, TheLogitsAreKept) {
  const std::vector<json> layers = {LayerJson("Flatten"),
                                    LayerJson("Dense", {{"units", kRestoredClasses}}),
                                    LayerJson("BatchNormalization")};
  EXPECT_EQ(Restored(layers, Recomputation::kFull, 8), (Names{"dense"}));
}

TEST_F(RestoredOutputsTest, MoreRecomputationTakesLessMemory) {
  const auto activations = [](Recomputation recomputation) {
    const ModelOptions options{.batch = kRestoredRows,
                               .input = kRestoredInput,
                               .classes = kRestoredClasses,
                               .recomputation = recomputation};
    return TestedModel(Residual(8), options, "cpu").model().Memory().activations;
  };
  const std::size_t none = activations(Recomputation::kNone);
  const std::size_t selective = activations(Recomputation::kSelective);
  // A block keeps a convolution's output and has a sum; every other sum is restored.
  EXPECT_LT(static_cast<double>(selective), 0.9 * static_cast<double>(none));
  EXPECT_LT(static_cast<double>(activations(Recomputation::kFull)),
            0.75 * static_cast<double>(selective));
}

// To restore the pool's output, or that of a cast, the samples would be kept, which are larger.
TEST_F(RestoredOutputsTest, NothingIsRestoredThatWouldTakeMoreMemory) {
  const std::vector<json> pooled = {
      LayerJson("AveragePooling2D", {{"poolSize", 4}}),
      LayerJson("Conv2D", {{"filters", 8}, {"kernelSize", 3}, {"activation", "relu"}}),
      LayerJson("GlobalAveragePooling2D"), LayerJson("Dense", {{"units", kRestoredClasses}})};
  const std::vector<json> dense = {
      LayerJson("Flatten"), LayerJson("Dense", {{"units", 16}, {"activation", "relu"}}),
      LayerJson("Dropout", {{"rate", 0.2}}), LayerJson("Dense", {{"units", kRestoredClasses}})};
  for (const std::vector<json>& layers : {pooled, dense, Residual(2)}) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      const auto activations = [&](Recomputation recomputation) {
        const ModelOptions options{.batch = 64,
                                   .input = {8, 32, 32},
                                   .classes = kRestoredClasses,
                                   .type = type,
                                   .recomputation = recomputation};
        return TestedModel(layers, options, "cpu").model().Memory().activations;
      };
      const std::size_t kept = activations(Recomputation::kNone);
      EXPECT_LE(activations(Recomputation::kSelective), kept);
      EXPECT_LE(activations(Recomputation::kFull), kept);
    }
  }
}

}  // namespace
}  // namespace lockstep::train
