#include "trainer/check/check_conversions.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/check/check_case.h"
#include "trainer/check/device_array.h"
#include "trainer/check/run_op.h"
#include "trainer/core/half.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kElements = 40'001;

using Elements = std::vector<float>;

class Conversions {
 public:
  explicit Conversions(Backend& backend) : backend_(backend) {}

  // The same bits as on `reference`.
  void Same(std::string_view name, const std::function<Elements(Backend&)>& run) {
    CheckCase result(group_, std::string(name));
    result.Run([&] { result.Same("y", run(backend_), run(*oracle_)); });
  }
  void Close(std::string_view name, const std::function<Elements(Backend&)>& run) {
    CheckCase result(group_, std::string(name));
    result.Run([&] { result.Close("y", run(backend_), run(*oracle_)); });
  }
  const CheckGroup& group() const { return group_; }

 private:
  Backend& backend_;
  const std::unique_ptr<Backend> oracle_ = MakeBackend({.name = "reference"});
  CheckGroup group_{.name = "conversions", .type = "all", .tolerance = 1e-6};
};

// Both passes of a cast to `type`, and of one back.
Elements CastBothWays(Backend& backend, DType type) {
  const auto narrow = backend.MakeCast({.shape = {7, 6'001}}, type);
  const auto wide = backend.MakeCast(narrow->output(), DType::kFloat32);
  const StepSettings step{.training = true, .valid = 7};
  Elements all;
  for (Op* op : {narrow.get(), wide.get()}) {
    OpInputs inputs = RandomInputs(*op, 1);
    // What becomes subnormal, overflows, or is no number.
    inputs.x[0] = 1e-7f;
    inputs.x[1] = 1e6f;
    inputs.x[2] = std::numeric_limits<float>::infinity();
    const OpOutputs outputs = RunOp(backend, *op, inputs, step);
    all.insert(all.end(), outputs.y.begin(), outputs.y.end());
    all.insert(all.end(), outputs.dx.begin(), outputs.dx.end());
  }
  return all;
}

Elements InputBytes(Backend& backend) {
  std::vector<std::uint8_t> bytes(kElements);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  const DeviceArray<float> y(backend, Elements(bytes.size(), NAN));
  // Planes of another size than any block of threads.
  const InputScaling scaling{.channels = 3,
                             .plane = 7,
                             .center = {123.7f, 116.3f, 103.5f},
                             .factor = {0.0171f, 0.0175f, 0.0174f}};
  backend.ConvertInput(bytes.data(), y.data(), kElements, scaling);
  return y.Values();
}

Elements ThroughLayout(Backend& backend, DType type) {
  const TensorDesc desc = NativeDesc(backend, {2, 20, 9, 8}, type);
  const Elements values = RandomValues(desc.shape.elements(), 5);
  // Full of NaN in every type.
  const DeviceArray<char> native(backend, std::vector<char>(desc.bytes(), '\xff'));
  backend.FromDense(values.data(), desc, native.data());
  Elements found(values.size(), NAN);
  backend.ToDense(desc, native.data(), found.data());
  return found;
}

Elements Scaled(Backend& backend) {
  const DeviceArray<float> x(backend, RandomValues(kElements, 1));
  const DeviceArray<float> y(backend, Elements(kElements, NAN));
  backend.Scale(x.data(), y.data(), kElements, 0.3f);
  return y.Values();
}

Elements Accumulated(Backend& backend) {
  const DeviceArray<float> x(backend, RandomValues(kElements, 1));
  const DeviceArray<float> y(backend, RandomValues(kElements, 2));
  backend.Accumulate(x.data(), y.data(), kElements);
  return y.Values();
}

Elements AccumulatedHalves(Backend& backend, DType type) {
  std::vector<std::uint16_t> x, y;
  const auto bits = [type](float value) {
    return type == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value);
  };
  for (const float value : RandomValues(kElements, 1)) x.push_back(bits(value));
  for (const float value : RandomValues(kElements, 2)) y.push_back(bits(value));
  const DeviceArray<std::uint16_t> from(backend, x), to(backend, y);
  backend.Accumulate(from.data(), to.data(), kElements, type);
  const std::vector<std::uint16_t> sums = to.Values();
  return {sums.begin(), sums.end()};
}

Elements CopiedAndZeroed(Backend& backend) {
  const DeviceArray<float> x(backend, RandomValues(kElements, 1));
  const DeviceArray<float> y(backend, Elements(kElements, NAN));
  backend.Copy(x.data(), y.data(), kElements * sizeof(float));
  backend.Zero(y.data() + 100, 1000 * sizeof(float));
  return y.Values();
}

Elements FiniteOrNot(Backend& backend) {
  Elements values(kElements, 3e38f);
  Elements answers;
  for (const std::size_t at : {0, 20'000, 40'000}) {
    for (const float value : {3e38f, INFINITY, -INFINITY, NAN}) {
      values[at] = value;
      const DeviceArray<float> x(backend, values);
      answers.push_back(backend.AllFinite(x.data(), kElements) ? 1.0f : 0.0f);
    }
    values[at] = 0;
  }
  return answers;
}

}  // namespace

CheckGroup CheckConversions(Backend& backend) {
  Conversions checks(backend);
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    const std::string_view name = DTypeName(type);
    checks.Same(fmt::format("Cast_{}", name),
                [type](Backend& device) { return CastBothWays(device, type); });
    checks.Same(fmt::format("Accumulate_{}", name),
                [type](Backend& device) { return AccumulatedHalves(device, type); });
    checks.Same(fmt::format("Layout_{}", name),
                [type](Backend& device) { return ThroughLayout(device, type); });
  }
  checks.Same("Layout_float32",
              [](Backend& device) { return ThroughLayout(device, DType::kFloat32); });
  checks.Same("Accumulate_float32", Accumulated);
  checks.Same("Scale", Scaled);
  checks.Same("CopyAndZero", CopiedAndZeroed);
  checks.Same("AllFinite", FiniteOrNot);
  checks.Close("InputBytes", InputBytes);
  return checks.group();
}

}  // namespace lockstep::train
