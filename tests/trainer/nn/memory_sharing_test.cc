// Random graphs in a model's planned memory against the same ops with memory of their own: if two
// tensors shared bytes while both are in use, a step would read what another op wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/nn/tested_model.h"
#include "trainer/core/arena.h"
#include "trainer/core/rng.h"
#include "trainer/nn/compile.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

constexpr std::int64_t kSharedRows = 4, kSharedClasses = 3;
const Shape kSharedInput = {3, 5, 4};
const StepContext kStep{.valid = 3, .step = 2, .first_position = 40};

// Layers that read one or several of the earlier ones, most often one that nothing reads yet.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : seed_(seed) {
    const int count = 4 + Below(9);
    for (int i = 0; i < count; ++i) AddImageLayer(Choose());
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (images_[i].is_read) continue;
      const char* type = Below(2) == 0 ? "Flatten" : "GlobalAveragePooling2D";
      flat_.push_back(Push(LayerJson(type), {images_[i].name}));
    }
    std::string last = flat_.front();
    if (flat_.size() > 1) last = Push(LayerJson("Concatenate"), flat_);
    if (Below(2) == 0) last = Push(LayerJson("BatchNormalization"), {last});
    if (Below(2) == 0) last = Push(LayerJson("Add"), {last, last});
    Push(LayerJson("Dense", {{"units", kSharedClasses}}), {last});
  }
  const std::vector<json>& layers() const { return layers_; }

 private:
  struct Image {
    std::string name;
    int channels;
    bool is_read;
  };

  int Below(int bound) {
    return static_cast<int>(Philox(seed_, drawn_++, 0)[0] % static_cast<std::uint32_t>(bound));
  }

  std::size_t Choose() {
    std::vector<std::size_t> unread;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (!images_[i].is_read) unread.push_back(i);
    }
    if (!unread.empty() && Below(3) > 0) {
      return unread[static_cast<std::size_t>(Below(static_cast<int>(unread.size())))];
    }
    return static_cast<std::size_t>(Below(static_cast<int>(images_.size())));
  }

  std::string Push(json layer, const std::vector<std::string>& inputs) {
    std::string name = "layer" + std::to_string(layers_.size());
    layer["name"] = name;
    layer["inputs"] = inputs;
    layers_.push_back(std::move(layer));
    return name;
  }

  void PushImage(json layer, const std::vector<std::size_t>& inputs, int channels) {
    std::vector<std::string> names;
    for (const std::size_t i : inputs) {
      names.push_back(images_[i].name);
      images_[i].is_read = true;
    }
    images_.push_back({Push(std::move(layer), names), channels, false});
  }

  void AddImageLayer(std::size_t from) {
    const int channels = images_[from].channels;
    const std::vector<const char*> activations = {"relu", "tanh", "gelu", "linear"};
    switch (Below(8)) {
      case 0:
      case 1: {
        const int filters = 1 + Below(17);
        return PushImage(LayerJson("Conv2D", {{"filters", filters},
                                              {"kernelSize", 1 + 2 * Below(2)},
                                              {"padding", "same"},
                                              {"activation", activations[Index(4)]}}),
                         {from}, filters);
      }
      case 2:
        return PushImage(LayerJson("Activation", {{"activation", activations[Index(3)]}}), {from},
                         channels);
      case 3:
        return PushImage(LayerJson("BatchNormalization"), {from}, channels);
      case 4:
        return PushImage(LayerJson("Dropout", {{"rate", 0.2}}), {from}, channels);
      case 5:
        return PushImage(LayerJson(Below(2) == 0 ? "MaxPooling2D" : "AveragePooling2D",
                                   {{"poolSize", 3}, {"strides", 1}, {"padding", "same"}}),
                         {from}, channels);
      case 6:
        return AddMerge("Add", from, /*of_equal_channels=*/true);
      default:
        return AddMerge("Concatenate", from, /*of_equal_channels=*/false);
    }
  }

  void AddMerge(const char* type, std::size_t from, bool of_equal_channels) {
    std::vector<std::size_t> fitting;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (!of_equal_channels || images_[i].channels == images_[from].channels) fitting.push_back(i);
    }
    std::vector<std::size_t> inputs = {from};
    int channels = images_[from].channels;
    for (int more = 1 + Below(3); more > 0; --more) {
      inputs.push_back(fitting[Index(static_cast<int>(fitting.size()))]);
      channels += images_[inputs.back()].channels;
    }
    std::swap(inputs.front(), inputs[Index(static_cast<int>(inputs.size()))]);
    if (channels > 100) return;
    PushImage(LayerJson(type), inputs, of_equal_channels ? images_[from].channels : channels);
  }

  std::size_t Index(int bound) { return static_cast<std::size_t>(Below(bound)); }

  std::uint64_t seed_, drawn_ = 0;
  std::vector<json> layers_;
  std::vector<Image> images_ = {{"input", static_cast<int>(kSharedInput[0]), true}};
  std::vector<std::string> flat_;
};

struct OneStep {
  std::vector<float> logits, gradients, states;
  bool operator==(const OneStep&) const = default;
};

// The model's second step, so that its memory is not as clean as it was.
OneStep StepOfModel(const std::vector<json>& layers, const ModelOptions& options,
                    const std::string& backend, const Batch& batch) {
  TestedModel tested(layers, options, backend);
  tested.Step(RandomBatch(kSharedRows, kSharedInput, kSharedClasses, 2), kStep, 1);
  tested.model().InitializeParameters();
  tested.Step(batch, kStep, 1);
  OneStep result;
  result.logits =
      Download(tested.backend(), {tested.model().logits(), kSharedRows * kSharedClasses});
  const std::vector<float> gradients = tested.Gradients();
  for (const TensorSlot& slot : tested.model().parameter_slots()) {
    const auto begin = gradients.begin() + slot.offset;
    result.gradients.insert(result.gradients.end(), begin, begin + slot.size);
  }
  const std::vector<float> states = Download(tested.backend(), tested.model().states());
  for (const TensorSlot& slot : tested.model().state_slots()) {
    const auto begin = states.begin() + slot.offset;
    result.states.insert(result.states.end(), begin, begin + slot.size);
  }
  return result;
}

// The same ops, each of whose tensors has memory that nothing else ever uses.
class Unshared {
 public:
  Unshared(const std::vector<json>& layers, const ModelOptions& options, const std::string& backend,
           const Batch& batch)
      : options_(options), backend_(MakeBackend({.name = backend})), batch_(batch) {
    ops_ = CompileLayers(FuseLayers(ParseLayers(layers).value()), options, *backend_).value();
    // Its initial values are those of the other model.
    initial_ = Model::Build(layers, options, *backend_).value();
  }

  OneStep Step() {
    StepContext seeded = kStep;
    seeded.seed = options_.seed;
    const DeviceArray<StepContext> step(*backend_, {seeded});
    const DeviceArray<float> samples(*backend_, batch_.x);
    for (const NamedOp& op : ops_) {
      y_.push_back(New(op.op->output().bytes()));
      dy_.push_back(New(op.op->output().bytes()));
    }
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      Bind(i, samples.data());
      ops_[i].op->Forward(Mode::kTraining, *step.data());
    }
    const DeviceArray<std::int32_t> labels(*backend_, batch_.labels);
    const DeviceArray<float> weights(*backend_, batch_.weights), scale(*backend_, {1.0f});
    const DeviceArray<LossTotals> totals(*backend_, {LossTotals{}});
    const auto loss =
        backend_->MakeSoftmaxCrossEntropy({.rows = kSharedRows, .classes = kSharedClasses});
    loss->Bind({.logits = y_.back(),
                .dlogits = dy_.back(),
                .labels = labels.data(),
                .weights = weights.data(),
                .scale = scale.data(),
                .totals = totals.data()});
    loss->Run();
    for (std::size_t i = ops_.size(); i-- > 0;) Backward(i, *step.data());
    return Result();
  }

 private:
  float* New(std::size_t bytes) {
    Arena& arena = arenas_.emplace_back();
    arena.Reserve(bytes + 1);
    arena.Allocate(backend_->memory());
    return arena.At<float>(0);
  }

  // Tensors of an op that start with the initial values of the model's next slots.
  std::vector<float*> Initialized(const std::vector<ParameterDesc>& tensors,
                                  const std::vector<TensorSlot>& slots, std::span<float> values,
                                  std::size_t& next) {
    std::vector<float*> made;
    for (const ParameterDesc& tensor : tensors) {
      made.push_back(New(tensor.desc.bytes()));
      const TensorSlot& slot = slots[next++];
      backend_->Copy(values.data() + slot.offset, made.back(),
                     static_cast<std::size_t>(slot.size) * sizeof(float));
    }
    return made;
  }

  void Bind(std::size_t i, float* samples) {
    const NamedOp& op = ops_[i];
    OpMemory memory;
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const int from = op.inputs[k];
      memory.x.push_back(from == kSamples ? samples : y_[static_cast<std::size_t>(from)]);
      memory.dx.push_back(op.input_gradients[k] ? New(op.op->inputs()[k].bytes()) : nullptr);
    }
    memory.y = y_[i];
    memory.dy = dy_[i];
    memory.workspace = New(op.op->WorkspaceBytes());
    memory.scratch = New(op.op->ScratchBytes());
    memory.parameters = Initialized(op.op->Parameters(), initial_->parameter_slots(),
                                    initial_->parameters(), next_parameter_);
    memory.states =
        Initialized(op.op->States(), initial_->state_slots(), initial_->states(), next_state_);
    for (const ParameterDesc& parameter : op.op->Parameters()) {
      memory.gradients.push_back(New(parameter.desc.bytes()));
    }
    ops_[i].op->Bind(memory);
    memory_.push_back(std::move(memory));
  }

  void Backward(std::size_t i, const StepContext& step) {
    const NamedOp& op = ops_[i];
    if (op.op->Parameters().empty() && std::ranges::count(op.input_gradients, true) == 0) return;
    op.op->Backward(step);
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      if (!op.input_gradients[k]) continue;
      const auto floats = static_cast<std::int64_t>(op.op->inputs()[k].bytes() / sizeof(float));
      backend_->Accumulate(static_cast<const float*>(memory_[i].dx[k]),
                           dy_[static_cast<std::size_t>(op.inputs[k])], floats);
    }
  }

  OneStep Result() const {
    OneStep result;
    result.logits = Download(*backend_, {y_.back(), kSharedRows * kSharedClasses});
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      Append(ops_[i].op->Parameters(), memory_[i].gradients, result.gradients);
      Append(ops_[i].op->States(), memory_[i].states, result.states);
    }
    return result;
  }
  void Append(const std::vector<ParameterDesc>& tensors, const std::vector<float*>& values,
              std::vector<float>& all) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::vector<float> tensor =
          Download(*backend_, {values[i], tensors[i].desc.bytes() / sizeof(float)});
      all.insert(all.end(), tensor.begin(), tensor.end());
    }
  }

  ModelOptions options_;
  std::unique_ptr<Backend> backend_;
  const Batch& batch_;
  std::unique_ptr<Model> initial_;
  std::vector<NamedOp> ops_;
  std::deque<Arena> arenas_;
  std::vector<float*> y_, dy_;
  std::vector<OpMemory> memory_;
  std::size_t next_parameter_ = 0, next_state_ = 0;
};

std::string NameOf(Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::kNone:
      return "";
    case Recomputation::kSelective:
      return "Selective";
    case Recomputation::kFull:
      return "Full";
  }
  return "";
}

class MemorySharingTest : public ::testing::TestWithParam<std::tuple<std::string, Recomputation>> {
};

TEST_P(MemorySharingTest, AStepHasTheBitsOfOneWithoutSharing) {
  const auto& [backend, recomputation] = GetParam();
  const ModelOptions options{.batch = kSharedRows,
                             .input = kSharedInput,
                             .classes = kSharedClasses,
                             .seed = 3,
                             .recomputation = recomputation};
  Batch batch = RandomBatch(kSharedRows, kSharedInput, kSharedClasses, 1);
  batch.weights.back() = 0;  // padding
  const std::uint64_t graphs = recomputation == Recomputation::kNone ? 100 : 40;
  for (std::uint64_t seed = 0; seed < graphs; ++seed) {
    const std::vector<json> layers = RandomGraph(seed).layers();
    const OneStep found = StepOfModel(layers, options, backend, batch);
    const OneStep expected = Unshared(layers, options, backend, batch).Step();
    EXPECT_TRUE(found == expected) << seed << ": " << json(layers).dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MemorySharingTest,
                         ::testing::Combine(::testing::ValuesIn(kBackendsUnderTest),
                                            ::testing::Values(Recomputation::kNone,
                                                              Recomputation::kSelective,
                                                              Recomputation::kFull)),
                         [](const auto& test) {
                           return TestName(std::get<0>(test.param)) +
                                  NameOf(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace lockstep::train
