#include "trainer/train/snapshot.h"

#include <fmt/format.h>

#include <utility>

#include "api/v1/enum_names.h"
#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

// What the order of an epoch depends on besides its numbers.
std::string AutoShardOf(const Session& session) {
  const api::AutoShard policy = session.training().dataset.auto_shard;
  if (policy == api::AutoShard::kAuto) return std::string(api::NameOf(api::AutoShard::kData));
  // An epoch is then as long as there are replicas.
  if (policy == api::AutoShard::kOff) return fmt::format("Off, {} replicas", session.plan().world);
  return std::string(api::NameOf(policy));
}

// What decides what the tensors of the optimizer's state mean. Muon's m of a matrix is not AdamW's.
std::string OptimizerOf(const api::OptimizerSpec& optimizer) {
  if (!api::MultipliesMatrices(optimizer) || optimizer.exclude_layers.empty()) {
    return optimizer.name;
  }
  return fmt::format("{} with excludeLayers {}", optimizer.name,
                     nlohmann::json(optimizer.exclude_layers).dump());
}

// The settings that must match for a saved step number to mean the same samples; but for the number
// of samples, without which it still means the same epoch: see TakePosition.
nlohmann::json RunSettings(const Session& session) {
  return {{"examples", session.plan().examples},
          {"globalBatch", session.plan().global_batch},
          {"seed", session.training().seed},
          {"dataSeed", session.data_seed()},
          {"shuffle", session.training().dataset.shuffle},
          {"autoShard", AutoShardOf(session)},
          {"optimizer", OptimizerOf(session.training().optimizer)}};
}

// Requires: the snapshot says how many samples it was saved with.
absl::Status OtherExamples(const Snapshot& snapshot, const Session& session,
                           const std::string& consequence) {
  return absl::FailedPreconditionError(fmt::format(
      "the checkpoint of step {} was saved with examples = {}, this job has {}, {}: put back the "
      "samples that are gone, or others in their place, and take away new ones; or use another "
      "checkpoint directory",
      snapshot.step, *TrainingExamples(snapshot.state), session.plan().examples, consequence));
}

absl::Status CheckStepsPerEpoch(const Snapshot& snapshot, const Session& session) {
  StepPlan saved = session.plan();
  saved.examples = *TrainingExamples(snapshot.state);
  const std::int64_t found = saved.StepsPerEpoch(), expected = session.plan().StepsPerEpoch();
  if (found == expected) return absl::OkStatus();
  return OtherExamples(snapshot, session,
                       fmt::format("and so an epoch {} steps instead of {}", expected, found));
}

absl::Status CheckSettings(const Snapshot& snapshot, const Session& session) {
  const nlohmann::json expected = RunSettings(session);
  nlohmann::json found = snapshot.state.value("settings", nlohmann::json::object());
  // Older checkpoints have one seed for all.
  if (found.contains("seed") && !found.contains("dataSeed")) found["dataSeed"] = found["seed"];
  // Earlier versions had no other policy, and did not save whether the run shuffles.
  if (!found.contains("autoShard")) found["autoShard"] = api::NameOf(api::AutoShard::kData);
  if (!found.contains("shuffle")) found["shuffle"] = expected["shuffle"];
  for (const auto& [key, value] : expected.items()) {
    if (found.contains(key) && found[key] == value) continue;
    if (key == "examples" && TrainingExamples(snapshot.state)) {
      LOCKSTEP_RETURN_IF_ERROR(CheckStepsPerEpoch(snapshot, session));
      continue;
    }
    const std::string saved = found.contains(key) ? found[key].dump() : "nothing";
    const bool is_product = key == "globalBatch" && session.training().batch_size.per_replica;
    return absl::FailedPreconditionError(fmt::format(
        "the checkpoint of step {} was saved with {} = {}, this job has {}: use another checkpoint "
        "directory or {}",
        snapshot.step, key, saved, value.dump(),
        is_product ? fmt::format("set batchSize.global = {} instead of perReplica, which counts "
                                 "for each replica and, with stages, for each pipeline",
                                 saved)
                   : "the old setting"));
  }
  return absl::OkStatus();
}

absl::Status OfCheckpoint(const Snapshot& snapshot, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("the checkpoint of step {}: {}", snapshot.step,
                                     std::string(status.message()))};
}

// The samples that a run takes next follow from its step: with another one than the checkpoint's,
// samples would be left out or used twice.
absl::StatusOr<RunState> RunStateOf(const Snapshot& snapshot) {
  absl::StatusOr<RunState> state =
      RunStateFromJson(snapshot.state.value("run", nlohmann::json::object()));
  if (!state.ok()) return OfCheckpoint(snapshot, state.status());
  if (state->step == snapshot.step) return state;
  return OfCheckpoint(snapshot,
                      absl::DataLossError(fmt::format(
                          "its run state is of step {}, expected the same step", state->step)));
}

std::string DigestText(std::uint64_t digest) {
  return fmt::format("{:016x}", digest);
}

// Which of its samples an epoch has used follows from the step only if they are those that it began
// with. Requires: CheckSettings.
absl::Status TakePosition(const Snapshot& snapshot, const Session& session, RunState& state) {
  const StepPlan& plan = session.plan();
  const std::int64_t examples = TrainingExamples(snapshot.state).value_or(plan.examples);
  const std::string digest = DigestText(session.train_digest());
  // Earlier versions did not save it.
  const nlohmann::json saved_digest = snapshot.state.value("trainDigest", nlohmann::json(digest));
  if (!saved_digest.is_string()) {
    return absl::DataLossError(fmt::format(
        "the manifest's run state: trainDigest is {}, expected a text", saved_digest.dump()));
  }
  if (examples == plan.examples && (saved_digest == digest || session.train_digest() == 0)) {
    return absl::OkStatus();
  }
  const std::int64_t done = plan.StepInEpoch(state.step);
  if (examples != plan.examples && done > 0) {
    const std::int64_t left = plan.StepsPerEpoch() - done;
    if (left >= session.total_steps() - state.step) {
      return OtherExamples(snapshot, session, "and no epoch follows in which to go on");
    }
    state.step += left;
    state.left_out_steps += left;
    state.ledger.AbandonEpoch();
    state.epoch_replicas = 0;
  }
  const char* of_epoch = "";  // none is in progress
  if (state.step > snapshot.step) {
    of_epoch = "the rest of its epoch is left out, and ";
  } else if (done > 0) {
    of_epoch = "the epoch that it is in may leave some out or use some twice, and ";
  }
  LogWarning(
      fmt::format("the training samples are not those of the checkpoint: {}samples that are held "
                  "out now may have been trained on",
                  of_epoch),
      {{"checkpointStep", snapshot.step},
       {"step", state.step},
       {"checkpointExamples", examples},
       {"examples", plan.examples},
       {"checkpointDigest", saved_digest.get<std::string>()},
       {"digest", digest}});
  return absl::OkStatus();
}

// A session without a test set does not evaluate, so it keeps the numbers.
bool IsOfAnotherEvaluation(const RunState& saved, const Session& session) {
  return saved.evaluated_on != 0 && session.test_data() != nullptr &&
         saved.evaluated_on != session.EvaluationDigest();
}

}  // namespace

std::optional<std::int64_t> TrainingExamples(const nlohmann::json& state) {
  const nlohmann::json settings = state.value("settings", nlohmann::json::object());
  const auto examples = settings.find("examples");
  if (examples == settings.end() || !examples->is_number_integer()) return std::nullopt;
  const auto count = examples->get<std::int64_t>();
  return count > 0 ? std::optional(count) : std::nullopt;
}

Snapshot MakeSnapshot(Session& session, const RunState& state, Time now) {
  return MakeSnapshot(session, state, now, CopyTensors(session));
}

Snapshot MakeSnapshot(Session& session, const RunState& state, Time now, StateTensors tensors) {
  Snapshot snapshot{.step = state.step, .model_hash = ModelHash(session), .saved = now};
  snapshot.state = {{"run", RunStateToJson(state)},
                    {"settings", RunSettings(session)},
                    {"model", DescriptionToJson(session.model_description())}};
  if (session.train_digest() != 0) {
    snapshot.state["trainDigest"] = DigestText(session.train_digest());
  }
  snapshot.model = std::move(tensors.model);
  snapshot.optimizer = std::move(tensors.optimizer);
  snapshot.best = std::move(tensors.best);
  return snapshot;
}

absl::Status RestoreSnapshot(const Snapshot& snapshot, Session& session, RunState& state) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSettings(snapshot, session));
  LOCKSTEP_ASSIGN_OR_RETURN(RunState saved, RunStateOf(snapshot));
  LOCKSTEP_RETURN_IF_ERROR(
      OfCheckpoint(snapshot, ExpectTensors(snapshot.model, snapshot.optimizer, session)));
  LOCKSTEP_RETURN_IF_ERROR(TakePosition(snapshot, session, saved));
  TakeTensors(snapshot.model, snapshot.optimizer, session);
  if (session.optimizer().has_average() && !HasAverages(snapshot.model)) {
    LogInfo("the checkpoint has no average of the parameters: it begins at its parameters",
            {{"step", snapshot.step}});
  }
  state = saved;
  if (IsOfAnotherEvaluation(saved, session)) ForgetEvaluations(state);
  const bool had_best = state.best.step >= 0;
  KeepBestOf(session.training(), state);
  // If the job counts by another metric now and no step follows, the model is evaluated again: it
  // is then the best one.
  const bool is_sought =
      had_best && state.best.step < 0 && session.training().early_stopping.has_value();
  if (is_sought && state.step >= session.total_steps()) state.evaluated_step = -1;
  return absl::OkStatus();
}

absl::Status RestoreModel(const Snapshot& snapshot, Session& session) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSettings(snapshot, session));
  const auto& model = snapshot.best.empty() ? snapshot.model : snapshot.best;
  return OfCheckpoint(snapshot, TakeModel(model, session));
}

}  // namespace lockstep::train
