#include "trainer/check/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/status.h"
#include "trainer/backend/out_of_memory.h"
#include "trainer/check/run_op.h"
#include "trainer/core/arena.h"
#include "trainer/train/bench/solo_training.h"

namespace lockstep::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// The shortest of a few times of one call: what else the machine does makes others longer. A time
// is that of so many calls that it can be measured.
double SecondsOf(Backend& backend, const std::function<void()>& work) {
  constexpr double kLongEnough = 0.01;
  constexpr int kTimes = 5;
  const auto seconds_of = [&](int calls) {
    const auto start = SteadyClock::now();
    for (int i = 0; i < calls; ++i) work();
    backend.Synchronize();
    return SecondsSince(start);
  };
  int calls = 1;
  seconds_of(calls);  // the first is longer
  double shortest = seconds_of(calls);
  while (shortest < kLongEnough) shortest = seconds_of(calls *= 2);
  for (int i = 1; i < kTimes; ++i) shortest = std::min(shortest, seconds_of(calls));
  return shortest / calls;
}

// Memory of one tensor, full of random numbers.
class RandomTensor {
 public:
  RandomTensor(Backend& backend, const TensorDesc& desc) {
    arena_.Reserve(desc.bytes());
    arena_.Allocate(backend.memory());
    const std::int64_t elements = desc.elements();
    const std::int64_t block = std::min<std::int64_t>(elements, 1 << 16);
    const std::vector<float> values = RandomValues(block, 1);
    backend.FromDense(values.data(), {.shape = {block}, .dtype = desc.dtype}, data());
    const auto bytes = static_cast<std::size_t>(block) * SizeOf(desc.dtype);
    for (std::size_t filled = bytes; filled < desc.bytes(); filled *= 2) {
      backend.Copy(data(), data() + filled, std::min(filled, desc.bytes() - filled));
    }
  }
  std::byte* data() const { return arena_.At<std::byte>(0); }

 private:
  Arena arena_;
};

TensorDesc FloatsOf(std::size_t bytes) {
  const std::size_t floats = (bytes + sizeof(float) - 1) / sizeof(float);
  return {.shape = {static_cast<std::int64_t>(std::max<std::size_t>(floats, 1))}};
}

// Times an n,n matrix times an n,n matrix.
double SecondsOfMatmul(Backend& backend, std::int64_t n, DType type) {
  const auto op =
      backend.MakeOp(DenseSpec{.x = {.shape = {n, n}, .dtype = type}, .units = n, .bias = false});
  const RandomTensor x(backend, op->input()), y(backend, op->output());
  const TensorDesc weight_desc = op->Parameters()[0].desc;
  const RandomTensor weight(backend, weight_desc), gradient(backend, weight_desc);
  const RandomTensor workspace(backend, FloatsOf(op->WorkspaceBytes()));
  const RandomTensor scratch(backend, FloatsOf(op->ScratchBytes()));
  const RandomTensor context(backend, FloatsOf(sizeof(StepContext)));
  const StepContext step{.valid = n};
  backend.Upload(&step, context.data(), sizeof(step));
  op->Bind({.x = {x.data()},
            .y = y.data(),
            .dy = y.data(),
            .dx = {nullptr},
            .parameters = {reinterpret_cast<float*>(weight.data())},
            .gradients = {reinterpret_cast<float*>(gradient.data())},
            .states = {},
            .workspace = workspace.data(),
            .scratch = scratch.data()});
  const auto& on_device = *reinterpret_cast<const StepContext*>(context.data());
  const double seconds = SecondsOf(backend, [&] { op->Forward(Mode::kEvaluation, on_device); });
  backend.Synchronize();
  return seconds;
}

api::TrainingSpec TrainingOf(const StepBenchmark& benchmark, api::Precision precision) {
  api::TrainingSpec training = SyntheticTraining(benchmark.model, benchmark.batch,
                                                 {.train_examples = 3 * benchmark.batch,
                                                  .test_examples = 1,
                                                  .shape = benchmark.sample_shape,
                                                  .classes = benchmark.classes});
  training.steps = 1'000'000;  // more than there is time for
  training.precision = precision;
  return training;
}

struct StepSpeed {
  double steps_per_second = 0;
  bool is_recorded = false;
};

absl::StatusOr<StepSpeed> SpeedOfSteps(const BackendFactory& make_backend,
                                       const SessionOptions& options, double budget) {
  constexpr int kWarmupSteps = 3;
  LOCKSTEP_ASSIGN_OR_RETURN(auto backend, make_backend(options.training.precision));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto training, SoloTraining::Create(options, std::move(backend)));
  const auto begin = SteadyClock::now();
  LOCKSTEP_RETURN_IF_ERROR(training->Step().status());
  // Where one step takes so long, what is longer in the first does not count.
  const double first = SecondsSince(begin);
  if (first > 5 * budget) return StepSpeed{.steps_per_second = 1 / first};
  const auto second = SteadyClock::now();
  LOCKSTEP_RETURN_IF_ERROR(training->Run(kWarmupSteps - 1).status());
  // Several at once, so that a device with a queue is not empty between them.
  const double expected = SecondsSince(second) / (kWarmupSteps - 1);
  const auto at_once = static_cast<int>(std::clamp(budget / 4 / expected, 1.0, 100.0));
  const auto start = SteadyClock::now();
  int steps = 0;
  while (steps == 0 || SecondsSince(start) < budget) {
    LOCKSTEP_RETURN_IF_ERROR(training->Run(at_once).status());
    steps += at_once;
  }
  return StepSpeed{.steps_per_second = steps / SecondsSince(start),
                   .is_recorded = training->session().recorder().has_recorded()};
}

struct MeasuredPrecision {
  api::Precision precision;
  DType type;
};
constexpr std::array kMeasuredPrecisions = {
    MeasuredPrecision{api::Precision::kFloat32, DType::kFloat32},
    MeasuredPrecision{api::Precision::kBFloat16, DType::kBFloat16},
    MeasuredPrecision{api::Precision::kFloat16, DType::kFloat16}};

// Runs `measure`, and notes why it could not end. What it had measured before the memory was too
// little counts.
void Measure(Measurement& result, const std::function<void()>& measure) {
  try {
    measure();
  } catch (const OutOfMemory& error) {
    if (result.value == 0) result.note = error.what();
  } catch (const DeviceError& error) {
    result.value = 0;
    result.note = error.what();
    result.has_failed = true;
  }
}

[[noreturn]] void Throw(const absl::Status& status) {
  const std::string message(status.message());
  if (absl::IsResourceExhausted(status)) throw OutOfMemory(message);
  throw DeviceError(message);
}

}  // namespace

Measurement MeasureCopy(Backend& backend) {
  constexpr std::size_t kSmallest = std::size_t{1} << 20, kLargest = std::size_t{1} << 29;
  constexpr double kLongEnough = 0.001;  // of one copy; larger ones are not faster
  Measurement result{.name = "copy", .unit = "GB/s"};
  Measure(result, [&] {
    for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) {
      const RandomTensor from(backend, FloatsOf(bytes)), to(backend, FloatsOf(bytes));
      const double seconds =
          SecondsOf(backend, [&] { backend.Copy(from.data(), to.data(), bytes); });
      result.value = 2 * static_cast<double>(bytes) / seconds / 1e9;
      result.note = fmt::format("{} MiB", bytes >> 20);
      if (seconds > kLongEnough) break;
    }
  });
  return result;
}

std::vector<Measurement> MeasureMatmul(Backend& backend) {
  constexpr std::int64_t kSmallest = 256, kLargest = 8192;
  constexpr double kLongEnough = 0.005;
  std::vector<Measurement> results;
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    Measurement& best = results.emplace_back(
        Measurement{.name = "matmul", .type = std::string(DTypeName(type)), .unit = "TFLOP/s"});
    Measure(best, [&] {
      for (std::int64_t n = kSmallest; n <= kLargest; n *= 2) {
        const double seconds = SecondsOfMatmul(backend, n, type);
        const auto side = static_cast<double>(n);
        const double speed = 2 * side * side * side / seconds / 1e12;
        if (speed > best.value) {
          best.value = speed;
          best.note = fmt::format("{0} x {0} times {0} x {0}", n);
        }
        if (seconds > kLongEnough) break;
      }
    });
  }
  return results;
}

std::vector<Measurement> MeasureSteps(const BackendFactory& make_backend, int threads,
                                      const StepBenchmark& benchmark) {
  std::vector<Measurement> results;
  // Returns whether the steps were recorded.
  const auto measure = [&](const MeasuredPrecision& measured, bool records) {
    const SessionOptions options{.training = TrainingOf(benchmark, measured.precision),
                                 .threads = threads,
                                 .records_steps = records};
    Measurement steps{.name = benchmark.model,
                      .type = std::string(DTypeName(measured.type)),
                      .unit = "steps/s",
                      .note = fmt::format("batch {}", benchmark.batch)};
    bool is_recorded = false;
    Measure(steps, [&] {
      const auto speed = SpeedOfSteps(make_backend, options, benchmark.seconds);
      if (!speed.ok()) Throw(speed.status());
      steps.value = speed->steps_per_second;
      is_recorded = speed->is_recorded;
      if (is_recorded) steps.note += ", recorded";
    });
    Measurement images = steps;
    images.value *= static_cast<double>(benchmark.batch);
    images.unit = "images/s";
    results.push_back(std::move(steps));
    results.push_back(std::move(images));
    return is_recorded;
  };
  for (const MeasuredPrecision& measured : kMeasuredPrecisions) {
    if (measure(measured, /*records=*/true)) measure(measured, /*records=*/false);
  }
  return results;
}

}  // namespace lockstep::train
