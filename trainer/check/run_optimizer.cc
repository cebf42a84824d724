#include "trainer/check/run_optimizer.h"

#include <memory>

#include "trainer/check/device_array.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {

std::vector<MatrixRange> MatricesToUpdate() {
  return {{.begin = 10, .rows = 20, .columns = 30},
          {.begin = 610, .rows = 9, .columns = 4},
          {.begin = 720, .rows = 1, .columns = 7},
          {.begin = 730, .rows = 31, .columns = 5}};
}

OptimizerOutputs RunOptimizer(Backend& backend, const OptimizerRule& rule,
                              const OptimizerRun& run) {
  const auto op = backend.MakeOptimizer(rule);
  const auto size = static_cast<std::size_t>(run.size);
  const DeviceArray<float> values(backend, RandomValues(run.size, 1));
  std::vector<std::unique_ptr<DeviceArray<float>>> slots;
  for (int i = 0; i < op->Slots(); ++i) {
    slots.push_back(std::make_unique<DeviceArray<float>>(backend, std::vector<float>(size)));
  }
  DeviceArray<float> gradients(backend, std::vector<float>(size));
  const DeviceArray<std::byte> scratch(backend, std::vector<std::byte>(op->ScratchBytes()));
  DeviceArray<OptimizerStep> settings(backend, {OptimizerStep{}});
  OptimizerMemory bound{.values = values.data(),
                        .gradients = gradients.data(),
                        .slots = {},
                        .size = run.size,
                        .step = settings.data(),
                        .scratch = scratch.data()};
  for (const auto& slot : slots) bound.slots.push_back(slot->data());
  if (run.in_segments) {
    bound.segments = {{.begin = 0, .end = 5, .decays = false},
                      {.begin = 5, .end = 700},
                      {.begin = 700, .end = run.size, .decays = false}};
  }
  op->Bind(bound);
  OptimizerOutputs outputs;
  for (std::int64_t step = 1; step <= 20; ++step) {
    gradients.Set(RandomValues(run.size, 10 + static_cast<std::uint64_t>(step)));
    settings.Set({{.applies = step != kNotAppliedStep,
                   .learning_rate = 0.1f / static_cast<float>(step),
                   .step = step,
                   .gradient_scale = step % 2 == 0 ? 0.7f : 1.0f}});
    const std::vector<float> before = values.Values();
    op->Step();
    outputs.changed.push_back(values.Values() != before);
  }
  outputs.tensors = {values.Values()};
  for (const auto& slot : slots) outputs.tensors.push_back(slot->Values());
  return outputs;
}

}  // namespace lockstep::train
