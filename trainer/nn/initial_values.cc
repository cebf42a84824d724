#include "trainer/nn/initial_values.h"

#include <cmath>

#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

// Keeps these random streams distinct from Dropout's (see compile.cc) and the sampler's.
constexpr std::uint64_t kInitialValueStreams = std::uint64_t{1} << 32;

void FillGlorotUniform(std::vector<float>& values, const ParameterDesc& parameter,
                       std::uint64_t key) {
  const double limit = std::sqrt(6.0 / static_cast<double>(parameter.fan_in + parameter.fan_out));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const PhiloxBlock block = Philox(key, i / 4, 0);
    values[i] = static_cast<float>(limit * (2.0 * UniformFloat(block[i % 4]) - 1.0));
  }
}

}  // namespace

std::vector<float> InitialValues(const ParameterDesc& parameter, std::uint64_t seed,
                                 std::uint64_t ordinal) {
  std::vector<float> values(static_cast<std::size_t>(parameter.desc.shape.elements()), 0.0f);
  switch (parameter.init) {
    case Init::kZeros:
      break;
    case Init::kOnes:
      values.assign(values.size(), 1.0f);
      break;
    case Init::kGlorotUniform:
      FillGlorotUniform(values, parameter, DeriveKey(seed, kInitialValueStreams + ordinal));
      break;
  }
  return values;
}

}  // namespace lockstep::train
