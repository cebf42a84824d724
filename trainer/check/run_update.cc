#include "trainer/check/run_update.h"

#include "trainer/check/device_array.h"

namespace lockstep::train {

UpdateOutputs RunUpdate(Backend& backend, const UpdateInputs& inputs) {
  const DeviceArray<UpdateSettings> settings(backend, {inputs.settings});
  const DeviceArray<char> is_summed(backend, {inputs.is_summed ? '\1' : '\0'});
  const DeviceArray<float> gradients(backend, inputs.gradients);
  const DeviceArray<StepTail> tail(backend, {inputs.tail});
  const DeviceArray<UpdateGate> gate(backend, {inputs.gate});
  const DeviceArray<OptimizerStep> update(backend, {OptimizerStep{}});
  const DeviceArray<StepResult> result(backend, {StepResult{}});
  const DeviceArray<float> states(backend, {3.0f}), summed(backend, {1.0f}), saved(backend, {2.0f});
  backend.DecideUpdate({.settings = settings.data(),
                        .is_summed = reinterpret_cast<const bool*>(is_summed.data()),
                        .gradients = gradients.data(),
                        .size = std::ssize(inputs.gradients),
                        .tail = tail.data(),
                        .gate = gate.data(),
                        .update = update.data(),
                        .result = result.data(),
                        .states = states.data(),
                        .summed_states = summed.data(),
                        .saved_states = saved.data(),
                        .states_size = 1});
  return {.result = result.Values()[0],
          .update = update.Values()[0],
          .gate = gate.Values()[0],
          .states = states.Values()};
}

}  // namespace lockstep::train
