// lockstep-trainer. Without a subcommand it is a pod's entry point: the supervisor of its replicas.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/descriptor.h"
#include "base/descriptor_limit.h"
#include "base/launch.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/stop_signal.h"
#include "trainer/backend/backend.h"
#include "trainer/check/check_report.h"
#include "trainer/check/gpu_check.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/core/available_memory.h"
#include "trainer/export/export_model.h"
#include "trainer/identity/identity.h"
#include "trainer/identity/parse_text.h"
#include "trainer/observe/metrics.h"
#include "trainer/observe/termination_message.h"
#include "trainer/plan/job_plan.h"
#include "trainer/plan/plan_json.h"
#include "trainer/supervisor/metrics_pipe.h"
#include "trainer/supervisor/stop_deadline.h"
#include "trainer/supervisor/supervisor.h"
#include "trainer/train/bench/bench.h"
#include "trainer/train/evaluator/evaluator_pod.h"
#include "trainer/train/replica.h"

namespace lockstep::train {
namespace {

int Failed(const absl::Status& status, int exit_code) {
  LogError(std::string(status.message()), {{"exitCode", exit_code}});
  return exit_code;
}

int Supervise(const Clock& clock) {
  const absl::StatusOr<Identity> identity = ReadIdentity(ProcessEnv);
  if (!identity.ok()) return Failed(identity.status(), api::kExitBadConfig);
  SupervisorOptions options;
  options.replica_command = {std::filesystem::read_symlink("/proc/self/exe"), "replica"};
  options.stop_grace = StopGrace(std::chrono::seconds(identity->grace_seconds));
  options.restart_in_place = ProcessEnv(api::kEnvRestartScope).value_or("InPlace") == "InPlace";
  const std::string address = HostPort(identity->pod_ip.empty() ? "0.0.0.0" : identity->pod_ip,
                                       fmt::format("{}", api::kMetricsPort));
  options.start_metrics = [address] { return MetricsServer::Start(address); };
  options.decode_metrics = DecodeMetrics;
  options.decode_server_metrics = DecodeServerMetrics;
  options.decode_evaluator_metrics = DecodeEvaluatorMetrics;
  options.termination_message_path =
      TerminationMessagePath(ProcessEnv(api::kEnvTerminationMessagePath));
  const absl::StatusOr<int> exit_code = RunSupervisor(*identity, clock, options);
  // Retryable: the port may be free when the pod is restarted.
  return exit_code.ok() ? *exit_code : Failed(exit_code.status(), api::kExitPeerLost);
}

// Returns a copy of the pipe to the supervisor that outlives the replica; none without a
// supervisor.
Descriptor CopyOfMetricsPipe() {
  const std::optional<int> fd = ParseInt(ProcessEnv(kEnvMetricsFd).value_or(""));
  return Descriptor(fd ? fcntl(*fd, F_DUPFD_CLOEXEC, 3) : -1);
}

int Replica(const Clock& clock) {
  InstallStopSignal();
  RaiseDescriptorLimit();  // a rank has one socket per peer
  const absl::StatusOr<Identity> identity = ReadIdentity(ProcessEnv);
  if (!identity.ok()) return Failed(identity.status(), api::kExitBadConfig);
  if (identity->role == api::Role::kEvaluator) {
    return RunEvaluatorPod(*identity, OwnerFor(*identity), ReplicaThreads(1), clock);
  }
  // The replica closes its own.
  const Descriptor metrics = CopyOfMetricsPipe();
  const ReplicaEnd end = RunReplica(*identity, clock);
  if (!end.new_workers || StopSignalled()) return end.exit_code;
  LogInfo("the replica starts again: the group was resized", {{"workers", *end.new_workers}});
  Environment env = CurrentEnvironment();
  env[kEnvWorkers] = fmt::format("{}", *end.new_workers);
  env[kEnvMetricsFd] = fmt::format("{}", metrics.fd());
  return Failed(StartAgain(env, {metrics.fd()}), api::kExitPeerLost);
}

int Bench(const BenchOptions& options) {
  const absl::StatusOr<nlohmann::ordered_json> report = RunBench(options);
  if (!report.ok()) {
    fmt::print(stderr, "lockstep-trainer bench: {}\n", std::string(report.status().message()));
    return api::kExitBadConfig;
  }
  if (options.explain) fmt::print("{}", ExplainTable(*report));
  fmt::print("{}\n", report->dump());
  return api::kExitDone;
}

struct CheckFlags {
  GpuCheckOptions options;
  std::string json;  // file; empty: none
};

int GpuCheck(const CheckFlags& flags) {
  std::ofstream json;
  if (!flags.json.empty()) {
    json.open(flags.json);
    if (!json) {
      fmt::print(stderr, "lockstep-trainer gpu-check: --json: {} cannot be written: {}\n",
                 Printable(flags.json), std::strerror(errno));
      return api::kExitUsage;
    }
  }
  SetLogLevel(LogLevel::kError);  // the report says the same once
  const absl::StatusOr<CheckReport> report = RunGpuCheck(flags.options);
  if (!report.ok()) {
    fmt::print(stderr, "lockstep-trainer gpu-check: {}\n", std::string(report.status().message()));
    return api::kExitBadConfig;
  }
  fmt::print("{}", ReportTable(*report));
  if (!flags.json.empty()) {
    json << ReportJson(*report).dump(2) << std::endl;
    if (!json) {
      fmt::print(stderr, "lockstep-trainer gpu-check: {} was not written whole\n",
                 Printable(flags.json));
      return api::kExitStorage;
    }
  }
  return ExitCode(*report);
}

struct PlanFlags {
  int threads = 0;  // 0: as a replica of this pod would have
  PodLimits pod_limits;
  int evaluators = 0;
  std::optional<std::int64_t> samples, classes;
  std::vector<std::int64_t> sample_shape;
};

int Plan(const PlanFlags& flags) {
  absl::StatusOr<Identity> identity = ReadIdentity(ProcessEnv);
  if (!identity.ok()) return Failed(identity.status(), api::kExitBadConfig);
  PlanOptions options{.identity = *std::move(identity),
                      .given = {.samples = flags.samples, .classes = flags.classes, .shape = {}},
                      .pod_limits = flags.pod_limits,
                      .available = AvailableMemory(),
                      .evaluators = flags.evaluators};
  options.threads =
      flags.threads > 0 ? flags.threads : ReplicaThreads(options.identity.processes_per_pod);
  if (!flags.sample_shape.empty()) options.given.shape = Shape(flags.sample_shape);
  const absl::StatusOr<JobPlan> plan = PlanJob(options);
  if (!plan.ok()) {
    fmt::print(stderr, "{}\n", Printable(std::string(plan.status().message())));
    const bool is_data = absl::IsNotFound(plan.status()) || absl::IsDataLoss(plan.status());
    return is_data ? api::kExitBadData : api::kExitBadConfig;
  }
  if (!plan->data.uncounted.empty()) {
    fmt::print(stderr, "note: spec.training.dataset: {}\n", Printable(plan->data.uncounted));
  }
  fmt::print("{}\n", PlanToJson(*plan).dump());
  return api::kExitDone;
}

// Names of layers and tensors are those of whoever has written the checkpoint.
int Export(const ModelExport& request) {
  const absl::StatusOr<std::string> written = ExportModel(request, RealFileSystem());
  if (!written.ok()) {
    const absl::Status& fault = written.status();
    fmt::print(stderr, "{}\n", Printable(std::string(fault.message())));
    const bool is_of_input = absl::IsInvalidArgument(fault) || absl::IsNotFound(fault) ||
                             absl::IsDataLoss(fault) || absl::IsFailedPrecondition(fault);
    return is_of_input ? api::kExitBadConfig : api::kExitStorage;
  }
  fmt::print("{}\n", Printable(*written));
  return api::kExitDone;
}

// The limit of `bench --threads`: the CPUs that cpu_set_t can hold. With 100,000 threads, a signal
// kills OpenMP.
constexpr int kMaxThreads = 1024;
constexpr int kMaxCount = 1'000'000'000;

CLI::App* AddBench(CLI::App& app, BenchOptions& options) {
  CLI::App* bench = app.add_subcommand("bench", "Time training steps of one process");
  bench->add_option("--model", options.model, "A bundled model");
  bench->add_option("--batch", options.batch, "Samples a step")->check(CLI::Range(1, kMaxCount));
  bench->add_option("--threads", options.threads, "0: all that this process may use")
      ->check(CLI::Range(0, kMaxThreads));
  bench->add_option("--steps", options.steps, "Timed steps")->check(CLI::Range(1, kMaxCount));
  bench->add_option("--warmup", options.warmup, "Steps before them")
      ->check(CLI::Range(0, kMaxCount));
  bench->add_option("--data", options.data, "Folder of IDX files; without it synthetic data");
  bench->add_option("--sample-shape", options.shape, "C,H,W of a synthetic sample")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::Range(1, kMaxCount));
  bench->add_option("--classes", options.classes, "Of synthetic data")
      ->check(CLI::Range(2, kMaxCount));
  bench
      ->add_option("--backend", options.backend,
                   fmt::format("One of {}", fmt::join(BackendNames(), ", ")))
      ->check(CLI::IsMember(BackendNames()));
  bench->add_option("--device", options.device, "Which of the GPUs, counted from 0")
      ->check(CLI::Range(0, kMaxCount));
  bench->add_option("--precision", options.precision, "Float32, TF32, BFloat16 or Float16")
      ->check(CLI::IsMember({"Float32", "TF32", "BFloat16", "Float16"}));
  bench
      ->add_option("--activation-checkpointing", options.activation_checkpointing,
                   "None, Selective or Full")
      ->check(CLI::IsMember({"None", "Selective", "Full"}));
  bench->add_flag("--explain", options.explain,
                  "Print each op's shape, implementation, layout and time before the report");
  bench->add_flag("!--eager", options.records_steps,
                  "Queue each op of each step, also where the device could replay a recorded step");
  return bench;
}

CLI::App* AddGpuCheck(CLI::App& app, CheckFlags& flags) {
  CLI::App* check =
      app.add_subcommand("gpu-check", "Check whether a device computes right, and how fast");
  GpuCheckOptions& options = flags.options;
  check
      ->add_option("--backend", options.backend,
                   fmt::format("One of {}", fmt::join(BackendNames(), ", ")))
      ->check(CLI::IsMember(BackendNames()));
  check->add_option("--device", options.device, "Which of the GPUs, counted from 0")
      ->check(CLI::Range(0, kMaxCount));
  check->add_option("--threads", options.threads, "Of the host; 0: all that this process may use")
      ->check(CLI::Range(0, kMaxThreads));
  check->add_flag("--quick", options.quick, "Without the shapes and steps of ResNet-50");
  check->add_flag("!--no-benchmarks", options.benchmarks, "Only check, and measure no speed");
  check->add_option("--json", flags.json, "A file for the report as JSON");
  return check;
}

CLI::App* AddPlan(CLI::App& app, PlanFlags& flags) {
  CLI::App* plan = app.add_subcommand(
      "plan", "Print as JSON what the job of this pod's environment would do and need");
  plan->add_option("--threads", flags.threads, "That compute in a replica; 0: as this pod has")
      ->check(CLI::Range(0, kMaxThreads));
  for (const auto& [role, option] : {std::pair(api::Role::kChief, "--chief-limit"),
                                     std::pair(api::Role::kWorker, "--worker-limit"),
                                     std::pair(api::Role::kParameterServer, "--ps-limit"),
                                     std::pair(api::Role::kEvaluator, "--evaluator-limit")}) {
    plan->add_option_function<std::uint64_t>(
        option, [&flags, role = role](std::uint64_t bytes) { flags.pod_limits[role] = bytes; },
        "Bytes that a pod of this role may use; without it, it shares this machine's memory");
  }
  plan->add_option("--evaluators", flags.evaluators, "Pods of the role Evaluator")
      ->check(CLI::Range(0, 1));
  plan->add_option("--samples", flags.samples, "Training samples, instead of opening the data set")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 60));
  plan->add_option("--classes", flags.classes, "Likewise, classes or numbers of a label")
      ->check(CLI::Range(1, kMaxCount));
  plan->add_option("--sample-shape", flags.sample_shape, "Likewise, C,H,W of a sample")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxCount));
  return plan;
}

CLI::App* AddExport(CLI::App& app, ModelExport& request) {
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint's model into one file");
  command
      ->add_option("CHECKPOINT", request.checkpoint,
                   "A checkpoint's folder, or a folder of checkpoints: the newest one")
      ->required();
  command->add_option("FILE", request.file, "Ends in .onnx or .safetensors: the format")
      ->required();
  return command;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Trains the model that LOCKSTEP_CONFIG describes, as a member of TF_CONFIG's cluster."};
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  const auto* replica =
      app.add_subcommand("replica", "One replica process; started by the supervisor");
  BenchOptions options;
  const auto* bench = AddBench(app, options);
  CheckFlags check_flags;
  const auto* gpu_check = AddGpuCheck(app, check_flags);
  PlanFlags flags;
  const auto* plan = AddPlan(app, flags);
  ModelExport request;
  const auto* export_model = AddExport(app, request);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? api::kExitDone : api::kExitUsage;
  }
  const SystemClock clock;
  if (bench->parsed()) return Bench(options);
  if (gpu_check->parsed()) return GpuCheck(check_flags);
  if (plan->parsed()) return Plan(flags);
  if (export_model->parsed()) return Export(request);
  if (replica->parsed()) return Replica(clock);
  return Supervise(clock);
}

}  // namespace
}  // namespace lockstep::train

int main(int argc, char** argv) {
  // Without a subcommand this is a pod's supervisor, which starts replicas with these held.
  if (argc < 2) lockstep::HoldStopSignals();
  lockstep::OpenStandardStreams();
  try {
    return lockstep::train::Main(argc, argv);
  } catch (const std::exception& error) {  // a failed check or a device error
    lockstep::LogError(error.what(), {{"exitCode", 134}});
    return 134;  // what SIGABRT would give: retryable
  }
}
