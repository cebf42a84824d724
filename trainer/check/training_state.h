// All that a training changes, for checks and tests that compare trainings.
#pragma once

#include <vector>

#include "trainer/check/device_array.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// Parameters, running statistics and the optimizer's slots. Requires: no step is begun.
inline std::vector<float> TrainingState(Session& session) {
  std::vector<float> all;
  const auto append = [&](std::span<const float> range) {
    const std::vector<float> values = Download(session.backend(), range);
    all.insert(all.end(), values.begin(), values.end());
  };
  append(session.model().parameters());
  append(session.model().states());
  for (int i = 0; i < session.optimizer().slots(); ++i) append(session.optimizer().slot(i));
  return all;
}

}  // namespace lockstep::train
