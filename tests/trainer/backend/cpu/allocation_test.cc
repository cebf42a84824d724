// Nothing of a tensor's size is allocated in a step. oneDNN itself makes a small map of arguments
// at every primitive; our own loops allocate nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <variant>
#include <vector>

#include "tests/trainer/backend/cpu/large_case.h"
#include "tests/trainer/backend/laid_out_case.h"
#include "trainer/backend/backend.h"
#include "trainer/core/arena.h"

namespace {

std::atomic<std::size_t> g_allocations{0};
std::atomic<std::size_t> g_largest{0};

void* CountedAllocation(std::size_t bytes) {
  ++g_allocations;
  std::size_t largest = g_largest.load();
  while (bytes > largest && !g_largest.compare_exchange_weak(largest, bytes)) {
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Where only one of a pair is inlined, g++ takes the two for mismatched.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return CountedAllocation(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return CountedAllocation(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

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
  g_largest = 0;
  step();
  return g_largest;
}

// Even by Winograd's method, which is ours, since a primitive may reorder the image for it.
bool UsesPrimitives(const OpSpec& spec) {
  return std::holds_alternative<Conv2dSpec>(spec) || std::holds_alternative<DenseSpec>(spec);
}

class AllocationTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cpu", .threads = GetParam()});
};

TEST_P(AllocationTest, OwnKernelsAllocateNothingAndPrimitivesOnlyTheirArgumentMaps) {
  constexpr std::size_t kMapOfArguments = 1024;
  for (const LaidOutCase& large : InEveryLayout(LargeCases())) {
    const OpSpec spec = large.op_case.spec({.shape = large.op_case.x});
    const auto op = large.Make(*backend_);
    EXPECT_LE(LargestInASteadyStep(*op), UsesPrimitives(spec) ? kMapOfArguments : 0)
        << large.Name();
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
  g_allocations = 0;
  loss->Run();
  adam->Step();
  EXPECT_EQ(g_allocations, 0u);
}

INSTANTIATE_TEST_SUITE_P(Threads, AllocationTest, testing::Values(1, 2));

}  // namespace
}  // namespace lockstep::train
