#include "trainer/plan/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/status.h"
#include "trainer/plan/largest_batch.h"
#include "trainer/plan/process_memory.h"
#include "trainer/plan/refusal.h"
#include "trainer/strategy/make_strategy.h"
#include "trainer/train/compute_device.h"
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

// Settings that processes of the job train with: the leading process's, or those of variants.
struct Member {
  SessionOptions options;
  PlannedData data;
  Identity identity;
  std::optional<int> variant;
};

// Equal for settings that take the same memory, and fit the same data.
std::string MemoryKey(api::TrainingSpec training) {
  training.seed = 1;
  training.label_smoothing = 0;
  training.learning_rate_schedule = {};
  training.max_skipped_steps = 0;
  training.variants = api::Json::array();
  training.checkpoint.directory = training.checkpoint.directory.empty() ? "" : "/";
  training.checkpoint.export_to = std::filesystem::path(training.checkpoint.export_to).extension();
  training.summaries.directory.clear();
  if (training.early_stopping) {
    training.early_stopping =
        api::EarlyStoppingSpec{.restore_best = training.early_stopping->restore_best};
  }
  // What an optimizer multiplies by takes no memory, except that there is no momentum without. Muon
  // needs memory for its largest matrix.
  const api::OptimizerSpec& optimizer = training.optimizer;
  training.optimizer = {.name = optimizer.name,
                        .momentum = optimizer.momentum == 0 ? 0.0 : 0.5,
                        .exclude_layers = optimizer.exclude_layers,
                        .weight_decay_exclude = optimizer.weight_decay_exclude};
  if (training.ema) training.ema = api::EmaSpec{};
  return api::TrainingSpecToJson(training).dump();
}

// The most: a checkpoint of the step of the best evaluation has that model only once.
std::size_t CheckpointBytes(Session& session) {
  const auto& stopping = session.training().early_stopping;
  const bool keeps_best = stopping && stopping->restore_best;
  return SnapshotBytes(session) + (keeps_best ? ModelBytes(session) : 0);
}

class Planner {
 public:
  explicit Planner(const PlanOptions& options) : options_(options) {}

  absl::StatusOr<JobPlan> Plan() {
    LOCKSTEP_RETURN_IF_ERROR(FindMembers());
    Measured measured;
    LOCKSTEP_RETURN_IF_ERROR(Measure(std::nullopt, measured));
    const Member& member = members_[measured.largest_member];
    Session& session = *measured.session;
    JobPlan plan{.identity = options_.identity,
                 .variant = member.variant,
                 .training = member.options.training,
                 .device = ComputesOnGpu(options_.identity) ? "cuda" : session.backend().Device(),
                 .threads = options_.threads,
                 .data = member.data,
                 .ops = {},
                 .stages = stages_,
                 .steps = StepsOf(session, member.data.train.samples.has_value()),
                 .messages = {},
                 .checkpoint = CheckpointBytes(session),
                 .memory = {},
                 .available = options_.available,
                 .refusal = {},
                 .largest = {}};
    for (const PlannedStage& stage : stages_) {
      plan.ops.insert(plan.ops.end(), stage.ops.begin(), stage.ops.end());
    }
    if (stages_.empty()) plan.ops = session.model().Report();
    const bool is_on_cluster = options_.pod_limits.contains(api::Role::kParameterServer);
    LOCKSTEP_ASSIGN_OR_RETURN(plan.messages, MessagesOf(options_.identity, is_on_cluster, session));
    for (const PlannedServer& server : plan.messages.servers) {
      servers_.push_back(Program() + server.needed);
    }
    if (evaluator_ && plan.data.uncounted.empty()) {
      plan.data.uncounted = evaluator_->data.uncounted;
    }
    plan.memory = MemoryOf(measured);
    measured.session.reset();
    if (!plan.memory.Fits(options_.available)) LOCKSTEP_RETURN_IF_ERROR(Refuse(plan));
    plan.measured = static_cast<int>(known_.size());
    return plan;
  }

 private:
  struct Measured {
    std::vector<ReplicaNumbers> by_member;
    std::optional<ReplicaMemory> evaluator;
    std::size_t largest_member = 0;
    std::unique_ptr<Session> session;  // of the largest member; null if it was known
  };

  // The memory of a process without session: a supervisor, or a parameter server beside its floats.
  std::size_t Program() const { return start_.resident + kBytesOnceRunning; }

  absl::Status FindStages() {
    LOCKSTEP_ASSIGN_OR_RETURN(const ReplicaDuties duties, DutiesOf(options_.identity));
    const int stages = options_.identity.Stages();
    for (int stage = 0; stage < stages; ++stage) {
      LOCKSTEP_RETURN_IF_ERROR(AddMember(options_.identity, duties, {stage, stages}));
    }
    for (int rank = 0; rank < options_.identity.World(); ++rank) {
      member_of_process_.push_back(static_cast<std::size_t>(options_.identity.StageOf(rank)));
    }
    return absl::OkStatus();
  }

  absl::Status FindMembers() {
    if (options_.identity.Stages() > 1) {
      LOCKSTEP_RETURN_IF_ERROR(FindStages());
      return options_.evaluators > 0 ? AddEvaluator() : absl::OkStatus();
    }
    Identity identity = options_.identity;
    const int pods = identity.Traits().trains_alone ? identity.Pods() : 1;
    const int processes = identity.Traits().trains_alone ? identity.processes_per_pod : 1;
    std::map<std::string, std::size_t> known;
    for (int process = 0; process < pods * processes; ++process) {
      if (identity.Traits().trains_alone) {
        identity.index = process / processes;
        identity.local_rank = process % processes;
      }
      LOCKSTEP_ASSIGN_OR_RETURN(const ReplicaDuties duties, DutiesOf(identity));
      const auto [found, is_new] = known.try_emplace(MemoryKey(duties.training), members_.size());
      member_of_process_.push_back(found->second);
      if (is_new) LOCKSTEP_RETURN_IF_ERROR(AddMember(identity, duties));
    }
    return options_.evaluators > 0 ? AddEvaluator() : absl::OkStatus();
  }

  absl::Status AddEvaluator() {
    const Member& trained = members_.front();
    Member member{.options = trained.options,
                  .data = {},
                  .identity = trained.identity,
                  .variant = std::nullopt};
    member.options.only_evaluates = true;
    member.options.stage = {};
    LOCKSTEP_ASSIGN_OR_RETURN(member.data, PlanTestData(member.options, trained.data));
    evaluator_ = std::move(member);
    return absl::OkStatus();
  }

  absl::Status AddMember(const Identity& identity, const ReplicaDuties& duties,
                         const ModelStage& stage = {}) {
    Member member{.options = {.training = duties.training,
                              .data_seed = duties.data_seed,
                              .world = identity.BatchParts(),
                              .threads = options_.threads,
                              .backend = options_.backend,
                              .update_site = duties.update_site == UpdateSite::kShares
                                                 ? UpdateSite::kShares
                                                 : UpdateSite::kEveryRank,
                              .stage = stage},
                  .data = {},
                  .identity = identity,
                  .variant = duties.variant};
    absl::StatusOr<PlannedData> data = PlanData(member.options, options_.given);
    if (!data.ok()) return OfMember(member, data.status());
    member.data = *std::move(data);
    members_.push_back(std::move(member));
    return absl::OkStatus();
  }

  static absl::Status OfMember(const Member& member, const absl::Status& status) {
    if (!member.variant) return status;
    return absl::Status(status.code(), fmt::format("variant {}: {}", *member.variant,
                                                   std::string(status.message())));
  }

  static SessionOptions WithAtMost(std::optional<std::int64_t> rows, SessionOptions options) {
    if (rows && *rows < RowsOf(options)) {
      options.training.batch_size = {.global = *rows * options.world, .per_replica = {}};
    }
    return options;
  }

  // Measures each member, with at most so many rows in a replica's batch.
  absl::Status Measure(std::optional<std::int64_t> most_rows, Measured& measured) {
    for (const Member& member : members_) {
      const SessionOptions options = WithAtMost(most_rows, member.options);
      std::unique_ptr<Session> session;
      LOCKSTEP_ASSIGN_OR_RETURN(const ReplicaNumbers replica,
                                MeasureMember(member, options, session));
      measured.by_member.push_back(replica);
      if (options.stage.count > 1 && !most_rows) NoteStage(*session, replica);
      const auto total = [&](std::size_t i) { return measured.by_member[i].memory.total(); };
      const std::size_t last = measured.by_member.size() - 1;
      if (last == 0 || total(last) > total(measured.largest_member)) {
        measured.largest_member = last;
        measured.session = std::move(session);
      }
    }
    if (!evaluator_) return absl::OkStatus();
    absl::StatusOr<ReplicaMemory> memory =
        MeasureEvaluator(WithAtMost(most_rows, evaluator_->options), evaluator_->data,
                         measured.by_member.front(), *process_);
    if (!memory.ok()) return memory.status();
    measured.evaluator = *memory;
    return absl::OkStatus();
  }

  void NoteStage(const Session& session, const ReplicaNumbers& replica) {
    stages_.push_back({.ops = session.model().Report(),
                       .bytes = replica.memory.total(),
                       .sent = session.stage_traffic().to_next.bytes});
  }

  // `session` stays null if one of these settings was measured before.
  absl::StatusOr<ReplicaNumbers> MeasureMember(const Member& member, const SessionOptions& options,
                                               std::unique_ptr<Session>& session) {
    const std::string key = fmt::format("{}/{}", options.stage.index, MemoryKey(options.training));
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    absl::StatusOr<MeasuredReplica> replica =
        MeasureReplica(options, member.data, member.identity, process_.value_or(Program()));
    if (!replica.ok()) return OfMember(member, replica.status());
    // The first session's is taken for all: the others hardly repeat its growth.
    if (!process_) process_ = replica->memory.process;
    replica->memory.process = replica->other.process = *process_;
    session = std::move(replica->session);
    return known_.emplace(key, *replica).first->second;
  }

  static std::int64_t RowsOf(const SessionOptions& options) {
    const api::BatchSizeSpec& batch = options.training.batch_size;
    if (!batch.global) return batch.per_replica.value_or(0);
    return StepPlan{.global_batch = *batch.global, .world = options.world}.LocalBatch();
  }

  PlannedMemory MemoryOf(const Measured& measured) const {
    PodContents contents{.replicas = {},
                         .other = measured.by_member.front().other,
                         .servers = servers_,
                         .evaluators = {},
                         .supervisor = Program(),
                         .program = start_.files};
    for (const std::size_t member : member_of_process_) {
      const ReplicaNumbers& numbers = measured.by_member[member];
      // The first of several pipelines saves.
      const bool is_other = !stages_.empty() && contents.replicas.size() >= stages_.size();
      contents.replicas.push_back(is_other ? numbers.other : numbers.memory);
    }
    if (measured.evaluator) {
      contents.evaluators.assign(static_cast<std::size_t>(options_.evaluators),
                                 *measured.evaluator);
    }
    return MemoryOfPods(options_.identity, contents, options_.pod_limits);
  }

  absl::StatusOr<PlannedMemory> MemoryWith(std::int64_t rows) {
    Measured measured;
    LOCKSTEP_RETURN_IF_ERROR(Measure(rows, measured));
    return MemoryOf(measured);
  }

  // The rows with which a member's checkpoints begin to take fewer copies.
  std::vector<std::int64_t> Falls() const {
    std::vector<std::int64_t> falls;
    for (const Member& member : members_) {
      const auto copies = [&](std::int64_t rows) {
        return CheckpointCopies(member.options.training, member.data,
                                {.examples = member.data.train.samples.value_or(1),
                                 .global_batch = rows * member.options.world,
                                 .world = member.options.world});
      };
      falls.push_back(FirstOf(1, RowsOf(member.options) + 1,
                              [&](std::int64_t rows) { return copies(rows) < copies(1); }));
    }
    return falls;
  }

  absl::Status Refuse(JobPlan& plan) {
    std::int64_t most = 0;
    for (const Member& member : members_) most = std::max(most, RowsOf(member.options));
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::int64_t rows,
        LargestThatFits(most - 1, Falls(), [&](std::int64_t count) -> absl::StatusOr<bool> {
          LOCKSTEP_ASSIGN_OR_RETURN(const PlannedMemory memory, MemoryWith(count));
          return memory.Fits(options_.available);
        }));
    plan.largest = LargestBatch{.per_replica = rows, .global = rows * members_[0].options.world};
    LOCKSTEP_ASSIGN_OR_RETURN(const PlannedMemory least, MemoryWith(1));
    plan.refusal = RefusalOf(plan, least);
    return absl::OkStatus();
  }

  const PlanOptions& options_;
  const ProcessMemory start_ = ReadTrimmedMemory();
  std::optional<std::size_t> process_;  // of a replica
  std::vector<Member> members_;
  std::optional<Member> evaluator_;
  std::map<std::string, ReplicaNumbers> known_;  // by stage and MemoryKey
  std::vector<PlannedStage> stages_;             // empty: the model is whole
  std::vector<std::size_t> member_of_process_;   // of those that save, in their order
  std::vector<std::size_t> servers_;
};

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const PlanOptions& options) {
  return Planner(options).Plan();
}

}  // namespace lockstep::train
