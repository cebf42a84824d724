// How fast a device is, by what training does with it.
#pragma once

#include <vector>

#include "trainer/check/check_report.h"
#include "trainer/check/check_training.h"

namespace lockstep::train {

// What a device has no memory for has no value, and the reason as its note; where it has memory
// for smaller sizes, the fastest of those counts. What a device cannot do for another reason has
// failed.

// GB/s of copies within the device's memory, where a byte counts as read and as written.
Measurement MeasureCopy(Backend& backend);

// TFLOP/s of square matrix products, for each type: the dense layer's forward pass, with the casts
// that the device needs. They grow until one takes milliseconds; the fastest counts.
std::vector<Measurement> MeasureMatmul(Backend& backend);

struct StepBenchmark {
  const char* model = "";
  std::int64_t batch = 0;
  std::vector<std::int64_t> sample_shape;  // C,H,W
  int classes = 10;
  double seconds = 1;  // to spend on the timed steps
};

// Steps and images per second of whole training steps on synthetic data, for each precision. A
// device that records steps is measured with recorded steps and without, as the notes say.
std::vector<Measurement> MeasureSteps(const BackendFactory& make_backend, int threads,
                                      const StepBenchmark& benchmark);

}  // namespace lockstep::train
