// What is allocated in a step. oneDNN makes a small map of arguments at every primitive, and its
// product of matrices takes memory for the blocks that it packs, in any mode of scratchpads. Our
// own loops allocate nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/count_allocations.h"
#include "tests/trainer/backend/cpu/large_case.h"
#include "tests/trainer/backend/laid_out_case.h"
#include "trainer/backend/backend.h"
#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

// An op bound to memory of its own.
class BoundMemory {
 public:
  explicit BoundMemory(Op& op) {
    std::vector<std::size_t> x, dx;
    for (const TensorDesc& input : op.inputs()) {
      x.push_back(arena_.Reserve(input.bytes()));
      dx.push_back(arena_.Reserve(input.bytes()));
    }
    const std::size_t y = arena_.Reserve(op.output().bytes());
    const std::size_t dy = arena_.Reserve(op.output().bytes());
    const std::size_t workspace = arena_.Reserve(op.WorkspaceBytes());
    const std::size_t scratch = arena_.Reserve(op.ScratchBytes());
    std::vector<std::size_t> tensors;
    for (const auto& list : {op.Parameters(), op.Parameters(), op.States()}) {
      for (const ParameterDesc& p : list) tensors.push_back(arena_.Reserve(p.desc.bytes()));
    }
    arena_.Allocate();
    OpMemory memory;
    for (const std::size_t at : x) memory.x.push_back(arena_.At(at));
    for (const std::size_t at : dx) memory.dx.push_back(arena_.At(at));
    memory.y = arena_.At(y);
    memory.dy = arena_.At(dy);
    const std::size_t count = op.Parameters().size();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      float* tensor = arena_.At<float>(tensors[i]);
      (i < count       ? memory.parameters
       : i < 2 * count ? memory.gradients
                       : memory.states)
          .push_back(tensor);
    }
    memory.workspace = arena_.At(workspace);
    memory.scratch = arena_.At(scratch);
    op.Bind(memory);
  }

 private:
  Arena arena_;
};

// The bytes of the largest allocation; 0: there was none.
std::size_t LargestInASteadyStep(Op& op) {
  const BoundMemory memory(op);
  const StepContext context{.valid = op.input().shape[0]};
  const auto step = [&] {
    op.Forward(Mode::kTraining, context);
    op.Backward(context);
  };
  for (int i = 0; i < 2; ++i) step();
  ForgetLargestAllocation();
  step();
  return LargestAllocation();
}

// Even by Winograd's method, which is ours, since a primitive may reorder the image for it.
bool UsesPrimitives(const OpSpec& spec) {
  return std::holds_alternative<Conv2dSpec>(spec) || std::holds_alternative<DenseSpec>(spec);
}

constexpr std::size_t kMapOfArguments = 1024, kPackedBlocks = 2 << 20;

std::size_t MostAllowed(const Op& op, const OpSpec& spec) {
  if (!UsesPrimitives(spec)) return 0;
  const bool multiplies = std::ranges::any_of(op.Choices(), [](const OpChoice& choice) {
    return choice.implementation.find("gemm") != std::string::npos;
  });
  return multiplies ? kPackedBlocks : kMapOfArguments;
}

std::string ImplementationsOf(const Op& op) {
  std::string found;
  for (const OpChoice& choice : op.Choices()) found += " " + choice.implementation;
  return found;
}

class AllocationTest : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cpu", .threads = GetParam()});
};

TEST_P(AllocationTest, OwnKernelsAllocateNothingAndPrimitivesLittle) {
  for (const LaidOutCase& large : InEveryLayout(LargeCases())) {
    const OpSpec spec = large.op_case.spec({.shape = large.op_case.x});
    const auto op = large.Make(*backend_);
    EXPECT_LE(LargestInASteadyStep(*op), MostAllowed(*op, spec))
        << large.Name() << ImplementationsOf(*op);
  }
}

TEST_P(AllocationTest, LossAndOptimizerAllocateNothing) {
  constexpr std::int64_t kRows = 64, kClasses = 10, kSize = 100000;
  std::vector<float> floats(static_cast<std::size_t>(4 * kSize), 0.5f);
  const std::vector<std::int32_t> labels(kRows, 3);
  const std::vector<float> weights(kRows, 1.0f);
  const float scale = 1;
  const OptimizerStep step{.learning_rate = 0.001f};
  LossTotals totals;
  const auto loss = backend_->MakeSoftmaxCrossEntropy({.rows = kRows, .classes = kClasses});
  loss->Bind({.logits = floats.data(),
              .dlogits = floats.data() + kRows * kClasses,
              .labels = labels.data(),
              .weights = weights.data(),
              .scale = &scale,
              .totals = &totals});
  const auto adam = backend_->MakeOptimizer(AdamSpec{});
  adam->Bind({.values = floats.data(),
              .gradients = floats.data() + kSize,
              .slots = {floats.data() + 2 * kSize, floats.data() + 3 * kSize},
              .size = kSize,
              .step = &step});
  const auto run = [&] {
    loss->Run();
    adam->Step();
  };
  run();  // starts the threads
  const long before = Allocations();
  run();
  EXPECT_EQ(Allocations() - before, 0);
}

// oneDNN packs blocks of the factors, of more bytes the larger they are, but no matrix of 20 MB.
TEST_P(AllocationTest, MuonAllocatesNoMatrix) {
  constexpr std::int64_t kSize = 1024 * 5000;
  std::vector<float> floats(static_cast<std::size_t>(3 * kSize), 0.5f);
  const OptimizerStep step{.learning_rate = 0.001f};
  const auto muon =
      backend_->MakeOptimizer(MuonSpec{.matrices = {{.rows = 1024, .columns = 5000}}, .steps = 1});
  std::vector<std::byte> scratch(muon->ScratchBytes());
  muon->Bind({.values = floats.data(),
              .gradients = floats.data() + kSize,
              .slots = {floats.data() + 2 * kSize, nullptr},
              .size = kSize,
              .step = &step,
              .scratch = scratch.data()});
  muon->Step();
  ForgetLargestAllocation();
  muon->Step();
  EXPECT_LE(LargestAllocation(), 3 * kPackedBlocks);
}

INSTANTIATE_TEST_SUITE_P(Threads, AllocationTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace lockstep::train
