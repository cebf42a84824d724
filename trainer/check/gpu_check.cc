#include "trainer/check/gpu_check.h"

#include <chrono>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "trainer/check/benchmarks.h"
#include "trainer/check/check_conversions.h"
#include "trainer/check/check_losses.h"
#include "trainer/check/check_ops.h"
#include "trainer/check/check_updates.h"
#include "trainer/train/compute_device.h"
#include "trainer/train/replica.h"

namespace lockstep::train {
namespace {

template <typename T>
void Append(std::vector<T> more, std::vector<T>& all) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<OpCase> CasesOf(bool quick) {
  std::vector<OpCase> cases = Together({SmallCases(), CoreCnnCases()});
  if (!quick) Append(ResNetCases(), cases);
  return cases;
}

// Those in which the device computes; in others it computes float32, between casts.
std::string ComputedTypes(const Backend& backend) {
  std::string types;
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (!backend.Computes(type)) continue;
    types += (types.empty() ? "" : ", ") + std::string(DTypeName(type));
  }
  return types;
}

void Check(Backend& backend, bool quick, ThreadPool& pool, int threads, CheckReport& report) {
  Append(CheckOps(backend, CasesOf(quick), pool, threads), report.groups);
  report.groups.push_back(CheckCrossEntropy(backend, /*large=*/true));
  report.groups.push_back(CheckElementwiseLosses(backend, /*large=*/true));
  report.groups.push_back(CheckOptimizers(backend, /*large=*/!quick));
  report.groups.push_back(CheckUpdateDecisions(backend));
  report.groups.push_back(CheckConversions(backend));
}

void MeasureTraining(const BackendFactory& make_backend, bool quick, int threads,
                     CheckReport& report) {
  Append(MeasureSteps(make_backend, threads,
                      {.model = "core-cnn",
                       .batch = 128,
                       .sample_shape = {1, 28, 28},
                       .seconds = quick ? 0.5 : 2}),
         report.measurements);
  if (quick) return;
  Append(MeasureSteps(make_backend, threads,
                      {.model = "resnet-50",
                       .batch = 64,
                       .sample_shape = {3, 224, 224},
                       .classes = 1000,
                       .seconds = 2}),
         report.measurements);
}

}  // namespace

absl::StatusOr<CheckReport> RunGpuCheck(const GpuCheckOptions& options,
                                        const BackendFactory& make_backend) {
  const auto start = std::chrono::steady_clock::now();
  const int threads = options.threads > 0 ? options.threads : ReplicaThreads(1);
  ThreadPool pool(static_cast<std::size_t>(threads - 1));
  CheckReport report;
  {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto backend, make_backend(api::Precision::kFloat32));
    report.backend = backend->Name();
    report.device = backend->Device();
    report.facts = backend->Facts();
    report.facts.push_back({"types of its instructions", ComputedTypes(*backend)});
    Check(*backend, options.quick, pool, threads, report);
    if (options.benchmarks) {
      report.measurements.push_back(MeasureCopy(*backend));
      Append(MeasureMatmul(*backend), report.measurements);
    }
  }
  {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto backend, make_backend(api::Precision::kTF32));
    Append(CheckTF32Ops(*backend, CasesOf(options.quick), pool, threads), report.groups);
  }
  Append(CheckTraining(make_backend, threads), report.groups);
  Append(CheckRecordedSteps(make_backend, threads), report.groups);
  if (options.benchmarks) MeasureTraining(make_backend, options.quick, threads, report);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report.seconds = seconds.count();
  return report;
}

absl::StatusOr<CheckReport> RunGpuCheck(const GpuCheckOptions& options) {
  const int threads = options.threads > 0 ? options.threads : ReplicaThreads(1);
  return RunGpuCheck(options, [&](api::Precision precision) {
    return OpenDevice({.name = options.backend,
                       .threads = threads,
                       .rounds_to_tf32 = precision == api::Precision::kTF32,
                       .device = options.device},
                      /*falls_back_to_cpu=*/false);
  });
}

int ExitCode(const CheckReport& report) {
  constexpr int kWrong = 1;
  return report.is_right() ? api::kExitDone : kWrong;
}

}  // namespace lockstep::train
