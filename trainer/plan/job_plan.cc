#include "trainer/plan/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/status.h"
#include "trainer/plan/process_memory.h"
#include "trainer/strategy/make_strategy.h"
#include "trainer/strategy/parameter_server/shard.h"
#include "trainer/train/parameter_client.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

PlannedSteps StepsOf(const Session& session, bool is_counted) {
  PlannedSteps steps{.plan = session.plan(), .parts = session.parts()};
  if (session.training().steps || is_counted) steps.total = session.total_steps();
  if (!is_counted) return steps;
  const StepPlan& plan = session.plan();
  steps.epoch = plan.StepsPerEpoch();
  std::int64_t read = 0;
  for (std::int64_t step : {std::int64_t{0}, *steps.epoch - 1}) {
    std::int64_t samples = 0;
    for (int rank = 0; rank < plan.world; ++rank) {
      const Slice slice = RankSlice(plan, step, rank);
      samples += slice.end - slice.begin;
    }
    read += step == 0 ? samples * std::max<std::int64_t>(*steps.epoch - 1, 1) : samples;
    if (*steps.epoch == 1) break;  // its only step is both
  }
  steps.padded = *steps.epoch * plan.LocalBatch() * plan.world - read;
  steps.dropped = plan.examples - read;
  return steps;
}

absl::StatusOr<std::vector<PlannedServer>> ServersOf(const Identity& identity, Session& session) {
  const ShardGroupOptions group = ShardOptions(ParameterClientOptionsFor(identity), session);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto shard, Shard::Create(session.training(), session.backend()));
  std::vector<PlannedServer> servers;
  for (std::size_t i = 0; i < group.plan.size(); ++i) {
    const ShardLayout layout{.ranges = group.plan[i],
                             .states = i == 0 ? group.states : 0,
                             .segments = {},
                             .parameters = group.parameters};
    LOCKSTEP_ASSIGN_OR_RETURN(const std::int64_t held, shard->FloatsToLoad(layout));
    servers.push_back(
        {.moved = static_cast<std::size_t>(layout.values() + layout.states) * sizeof(float),
         .held = static_cast<std::size_t>(held) * sizeof(float)});
  }
  return servers;
}

absl::StatusOr<PlannedMessages> MessagesOf(const Identity& identity, Session& session) {
  PlannedMessages messages;
  if (identity.UsesParameterServers()) {
    LOCKSTEP_ASSIGN_OR_RETURN(messages.servers, ServersOf(identity, session));
    return messages;
  }
  const auto world = static_cast<std::size_t>(session.plan().world);
  if (world == 1) return messages;
  const CollectiveOptions options{.layer_starts = session.LayerStarts()};
  for (const GradientReducer::Bucket& bucket : BucketsOf(session.buffer(), options)) {
    const std::size_t bytes = static_cast<std::size_t>(bucket.end - bucket.begin) * sizeof(float);
    messages.buckets.push_back(bytes);
    messages.sent += 2 * (world - 1) * bytes / world;
  }
  return messages;
}

std::string MiB(std::size_t bytes) {
  return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// The larger parts of a replica's memory first.
std::string Parts(const ReplicaMemory& memory) {
  std::vector<std::pair<std::size_t, const char*>> parts = {
      {memory.process, "the process"},
      {memory.data_sets, "data sets"},
      {memory.batches, "batches"},
      {memory.parameters, "parameters"},
      {memory.gradients, "gradients"},
      {memory.optimizer, "optimizer"},
      {memory.activations, "activations"},
      {memory.scratch, "scratch"},
      {memory.staging, "staging"},
      {memory.step, "the step's own"},
      {memory.servers, "parameter servers' values"},
      {memory.checkpoint, "checkpoints"}};
  std::ranges::sort(parts, std::greater());
  std::string text;
  for (std::size_t i = 0; i < 3 && parts[i].first > 0; ++i) {
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", MiB(parts[i].first), parts[i].second);
  }
  return text;
}

class Planner {
 public:
  explicit Planner(const PlanOptions& options)
      : options_(options), process_(start_.resident + kBytesOnceRunning) {}

  absl::StatusOr<JobPlan> Plan() {
    const Identity& identity = options_.identity;
    LOCKSTEP_ASSIGN_OR_RETURN(const Place place, PlaceOf(identity));
    session_ = {.training = place.training,
                .data_seed = place.data_seed,
                .world = identity.BatchParts(),
                .threads = options_.threads,
                .backend = options_.backend};
    LOCKSTEP_ASSIGN_OR_RETURN(data_, PlanData(session_, options_.given));
    LOCKSTEP_ASSIGN_OR_RETURN(MeasuredReplica replica,
                              MeasureReplica(session_, data_, identity, process_));
    process_ = replica.memory.process;
    Session& session = *replica.session;
    JobPlan plan{.identity = identity,
                 .training = place.training,
                 .device = session.backend().Device(),
                 .threads = options_.threads,
                 .data = data_,
                 .ops = session.model().Report(),
                 .steps = StepsOf(session, data_.train.samples.has_value()),
                 .messages = {},
                 .checkpoint = SnapshotBytes(session),
                 .memory = MemoryOfJob(replica.memory),
                 .pod_limit = options_.pod_limit,
                 .available = options_.available,
                 .refusal = {},
                 .largest = {}};
    LOCKSTEP_ASSIGN_OR_RETURN(plan.messages, MessagesOf(identity, session));
    replica.session.reset();
    if (!Fits(plan.memory)) LOCKSTEP_RETURN_IF_ERROR(Refuse(plan));
    return plan;
  }

 private:
  // A pod's supervisor is the same program, without tensors.
  PlannedMemory MemoryOfJob(const ReplicaMemory& replica) const {
    const auto processes = static_cast<std::size_t>(options_.identity.processes_per_pod);
    const bool all_save = options_.identity.IsIndependent();
    const bool one_updates = options_.identity.strategy.type == api::StrategyType::kCentralStorage;
    const std::size_t other = replica.total() - (all_save ? 0 : replica.checkpoint) -
                              (one_updates ? replica.optimizer : 0);
    const std::size_t supervisor = start_.resident + kBytesOnceRunning;
    const std::size_t pod = supervisor + replica.total() + (processes - 1) * other;
    const auto others = static_cast<std::size_t>(options_.identity.Pods() - 1);
    return {.replica = replica, .pod = pod, .job = pod + others * (supervisor + processes * other)};
  }

  bool Fits(const PlannedMemory& memory) const {
    return options_.pod_limit ? memory.pod <= *options_.pod_limit
                              : memory.job <= options_.available;
  }

  // Of a job with this many rows in a replica's batch.
  absl::StatusOr<PlannedMemory> MemoryOf(std::int64_t rows) {
    SessionOptions options = session_;
    options.training.batch_size = {.global = rows * session_.world, .per_replica = {}};
    LOCKSTEP_ASSIGN_OR_RETURN(const MeasuredReplica replica,
                              MeasureReplica(options, data_, options_.identity, 0));
    ReplicaMemory memory = replica.memory;
    memory.process = process_;  // of the first session, whose growth the others hardly repeat
    return MemoryOfJob(memory);
  }

  // Memory grows with the rows. One row first: often it is the rest that is too large.
  absl::StatusOr<LargestBatch> FindLargest(const JobPlan& plan) {
    std::int64_t fits = 0, too_many = plan.steps.plan.LocalBatch();
    for (std::int64_t rows = 1; too_many - fits > 1; rows = fits + (too_many - fits) / 2) {
      LOCKSTEP_ASSIGN_OR_RETURN(const PlannedMemory memory, MemoryOf(rows));
      (Fits(memory) ? fits : too_many) = rows;
    }
    return LargestBatch{.per_replica = fits, .global = fits * session_.world};
  }

  absl::Status Refuse(JobPlan& plan) {
    LOCKSTEP_ASSIGN_OR_RETURN(plan.largest, FindLargest(plan));
    const std::int64_t rows = plan.steps.plan.LocalBatch();
    const std::string need =
        options_.pod_limit
            ? fmt::format("a pod needs {}, but resources.limits.memory is {}", MiB(plan.memory.pod),
                          MiB(*options_.pod_limit))
            : fmt::format(
                  "all pods need {}, but this machine has {} available; set "
                  "resources.limits.memory of the pod template to plan for a cluster",
                  MiB(plan.memory.job), MiB(options_.available));
    const std::string largest =
        plan.largest->per_replica > 0
            ? fmt::format("the largest batch that fits is {} per replica, {} globally",
                          plan.largest->per_replica, plan.largest->global)
            : "no batch fits, not even one sample per replica";
    plan.refusal = fmt::format(
        "spec.training.batchSize: with {} samples per replica, {}: a replica needs {} ({}); {}",
        rows, need, MiB(plan.memory.replica.total()), Parts(plan.memory.replica), largest);
    return absl::OkStatus();
  }

  const PlanOptions& options_;
  const ProcessMemory start_ = ReadProcessMemory();
  std::size_t process_;
  SessionOptions session_;
  PlannedData data_;
};

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const PlanOptions& options) {
  return Planner(options).Plan();
}

}  // namespace lockstep::train
