#include "trainer/check/run_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/check.h"
#include "trainer/check/device_array.h"
#include "trainer/core/arena.h"
#include "trainer/core/half.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

// One tensor in the back end's layout, in memory of its own.
class DeviceTensor {
 public:
  DeviceTensor(Backend& backend, TensorDesc desc) : backend_(backend), desc_(std::move(desc)) {
    arena_.Reserve(desc_.bytes());
    arena_.Allocate(backend_.memory());
    Spoil();
  }
  DeviceTensor(Backend& backend, const TensorDesc& desc, const std::vector<float>& values)
      : DeviceTensor(backend, desc) {
    LOCKSTEP_CHECK(static_cast<std::int64_t>(values.size()) == desc_.shape.elements(),
                   "run op: {} values for shape {}", values.size(), desc_.shape.ToString());
    backend_.FromDense(values.data(), desc_, data());
  }
  float* data() const { return arena_.At<float>(0); }
  void Spoil() const {
    const std::vector<std::uint8_t> unwritten(desc_.bytes(), 0xff);  // NaN in every type
    backend_.Upload(unwritten.data(), data(), desc_.bytes());
  }
  std::vector<float> Dense() const {
    std::vector<float> values(static_cast<std::size_t>(desc_.shape.elements()), NAN);
    backend_.ToDense(desc_, data(), values.data());
    return values;
  }

  // Which element that the layout adds to the first `rows` rows is not zero; empty if all are.
  std::string PaddingFault(std::int64_t rows, const char* what) const {
    if (desc_.dense()) return "";
    const DeviceTensor clean(backend_, desc_, Dense());
    const std::int64_t elements = desc_.elements() * rows / desc_.shape[0];
    const std::vector<float> found = InMemory(), expected = clean.InMemory();
    for (std::size_t i = 0; std::cmp_less(i, elements); ++i) {
      if (found[i] == expected[i]) continue;
      return fmt::format("{}: element {} in memory is {}, expected {}", what, i, found[i],
                         expected[i]);
    }
    return "";
  }

 private:
  // The elements in the order of the layout, with what it adds.
  std::vector<float> InMemory() const {
    std::vector<float> values(static_cast<std::size_t>(desc_.elements()));
    if (desc_.dtype == DType::kFloat32) {
      backend_.Download(data(), values.data(), desc_.bytes());
      return values;
    }
    std::vector<std::uint16_t> halves(values.size());
    backend_.Download(data(), halves.data(), desc_.bytes());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      values[i] =
          desc_.dtype == DType::kBFloat16 ? FromBFloat16(halves[i]) : FromFloat16(halves[i]);
    }
    return values;
  }

  Backend& backend_;
  TensorDesc desc_;
  Arena arena_;
};

using Tensors = std::vector<std::unique_ptr<DeviceTensor>>;

std::vector<float*> Pointers(const Tensors& tensors) {
  std::vector<float*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(tensor->data());
  return pointers;
}

Tensors Upload(Backend& backend, const std::vector<ParameterDesc>& descs,
               const std::vector<std::vector<float>>& values) {
  Tensors tensors;
  for (std::size_t i = 0; i < descs.size(); ++i) {
    tensors.push_back(std::make_unique<DeviceTensor>(backend, descs[i].desc, values.at(i)));
  }
  return tensors;
}

Tensors Unwritten(Backend& backend, const std::vector<ParameterDesc>& descs) {
  Tensors tensors;
  for (const ParameterDesc& desc : descs) {
    tensors.push_back(std::make_unique<DeviceTensor>(backend, desc.desc));
  }
  return tensors;
}

std::vector<std::vector<float>> Dense(const Tensors& tensors) {
  std::vector<std::vector<float>> values;
  for (const auto& tensor : tensors) values.push_back(tensor->Dense());
  return values;
}

Tensors UploadInputs(Backend& backend, const Op& op, const std::vector<float>& values) {
  Tensors tensors;
  auto first = values.begin();
  for (const TensorDesc& desc : op.inputs()) {
    const auto last = first + desc.shape.elements();
    tensors.push_back(
        std::make_unique<DeviceTensor>(backend, desc, std::vector<float>(first, last)));
    first = last;
  }
  return tensors;
}

Tensors UnwrittenInputs(Backend& backend, const Op& op) {
  Tensors tensors;
  for (const TensorDesc& desc : op.inputs()) {
    tensors.push_back(std::make_unique<DeviceTensor>(backend, desc));
  }
  return tensors;
}

bool HasSameBits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// What Op::Restore has not left as Forward did; empty if nothing.
std::string RestoreFault(const OpOutputs& forward, const std::vector<float>& y,
                         const std::vector<std::vector<float>>& states) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (HasSameBits(y[i], forward.y[i])) continue;
    return fmt::format("y[{}] is restored as {}, expected {}", i, y[i], forward.y[i]);
  }
  for (std::size_t s = 0; s < states.size(); ++s) {
    if (std::ranges::equal(states[s], forward.states[s], HasSameBits)) continue;
    return fmt::format("state {} has changed when y was restored", s);
  }
  return "";
}

TensorDesc Bytes(std::size_t bytes) {
  return {.shape = {static_cast<std::int64_t>((bytes + 3) / 4)}};
}

}  // namespace

std::vector<float> RandomValues(std::int64_t size, std::uint64_t stream) {
  std::vector<float> values(static_cast<std::size_t>(size));
  const std::uint64_t key = DeriveKey(2026, stream);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 2 * UniformFloat(Philox(key, i, 0)[0]) - 1;
  }
  return values;
}

OpInputs RandomInputs(const Op& op, std::uint64_t stream) {
  OpInputs inputs;
  std::uint64_t next = stream * 100;
  std::int64_t elements = 0;
  for (const TensorDesc& input : op.inputs()) elements += input.shape.elements();
  inputs.x = RandomValues(elements, next++);
  inputs.dy = RandomValues(op.output().shape.elements(), next++);
  for (const ParameterDesc& parameter : op.Parameters()) {
    inputs.parameters.push_back(RandomValues(parameter.desc.shape.elements(), next++));
  }
  for (const ParameterDesc& state : op.States()) {
    inputs.states.push_back(RandomValues(state.desc.shape.elements(), next++));
    for (float& value : inputs.states.back()) value = 1 + value / 2;
  }
  return inputs;
}

OpOutputs RunOp(Backend& backend, Op& op, const OpInputs& inputs, const StepSettings& step,
                Passes passes) {
  const bool want_dx = passes == Passes::kAll;
  const Tensors x = UploadInputs(backend, op, inputs.x), dx = UnwrittenInputs(backend, op);
  const DeviceTensor dy(backend, op.output(), inputs.dy), y(backend, op.output());
  const DeviceTensor workspace(backend, Bytes(op.WorkspaceBytes()));
  const DeviceTensor scratch(backend, Bytes(op.ScratchBytes()));
  const Tensors parameters = Upload(backend, op.Parameters(), inputs.parameters);
  const Tensors gradients = Unwritten(backend, op.Parameters());
  const Tensors states = Upload(backend, op.States(), inputs.states);

  OpMemory memory;
  for (const auto& tensor : x) memory.x.push_back(tensor->data());
  memory.y = y.data();
  memory.dy = dy.data();
  for (const auto& tensor : dx) memory.dx.push_back(want_dx ? tensor->data() : nullptr);
  memory.parameters = Pointers(parameters);
  memory.gradients = Pointers(gradients);
  memory.states = Pointers(states);
  memory.workspace = workspace.data();
  memory.scratch = scratch.data();
  op.Bind(memory);

  const DeviceArray<StepContext> context(backend, {step.context()});
  OpOutputs outputs;
  op.Forward(step.mode(), *context.data());
  backend.Synchronize();
  // What a layout adds is computed too, and 0 times NaN is NaN.
  const bool numbers =
      std::ranges::all_of(inputs.x, [](float value) { return !std::isnan(value); });
  if (numbers) outputs.padding_fault = y.PaddingFault(step.valid, "y");
  outputs.y = y.Dense();
  outputs.states = Dense(states);
  if (!step.training || passes == Passes::kForward) return outputs;
  y.Spoil();
  op.Restore(*context.data());
  backend.Synchronize();
  outputs.restore_fault = RestoreFault(outputs, y.Dense(), Dense(states));
  if (!op.Reads().x) {
    for (const auto& tensor : x) tensor->Spoil();
  }
  if (!op.Reads().y) y.Spoil();
  op.Backward(*context.data());
  backend.Synchronize();
  if (want_dx) {
    for (const auto& tensor : dx) {
      if (numbers && outputs.padding_fault.empty())
        outputs.padding_fault = tensor->PaddingFault(step.valid, "dx");
      const std::vector<float> dense = tensor->Dense();
      outputs.dx.insert(outputs.dx.end(), dense.begin(), dense.end());
    }
  }
  outputs.gradients = Dense(gradients);
  return outputs;
}

TensorDesc NativeDesc(Backend& backend, const Shape& shape, DType type) {
  if (shape.rank() != 4) return {.shape = shape, .dtype = type};
  const auto conv =
      backend.MakeOp(Conv2dSpec{.x = {.shape = {shape[0], 16, shape[2], shape[3]}, .dtype = type},
                                .filters = shape[1],
                                .kernel_h = 3,
                                .kernel_w = 3,
                                .padding = Padding::kSame});
  return conv->output();
}

}  // namespace lockstep::train
