#include "trainer/train/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

using TensorsByName = std::map<std::string, const NamedTensor*>;

TensorsByName ByName(const std::vector<NamedTensor>& tensors) {
  TensorsByName by_name;
  for (const NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  return by_name;
}

absl::Status Expect(const TensorsByName& tensors, const std::string& name, const Shape& shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return absl::FailedPreconditionError(
        fmt::format("found no tensor '{}', which this job's model or optimizer needs", name));
  }
  if (const std::string& type = found->second->type; type != "F32") {
    return absl::FailedPreconditionError(
        fmt::format("found tensor '{}' of type {}, expected F32", name, type));
  }
  if (found->second->shape == shape) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("found tensor '{}' of {}, expected {}", name,
                                                   found->second->shape.ToString(),
                                                   shape.ToString()));
}

// A tensor to save: its name, its slot, and the flat range that the slot's offset refers to.
struct SavedTensor {
  std::string name;
  const TensorSlot* slot;
  float* flat;
};

std::vector<SavedTensor> ModelTensors(Session& session) {
  std::vector<SavedTensor> tensors;
  Model& model = session.model();
  for (const TensorSlot& slot : model.parameter_slots()) {
    tensors.push_back({slot.name, &slot, model.parameters().data()});
  }
  for (const TensorSlot& slot : model.state_slots()) {
    tensors.push_back({slot.name, &slot, model.states().data()});
  }
  return tensors;
}

std::vector<SavedTensor> OptimizerTensors(Session& session) {
  std::vector<SavedTensor> tensors;
  Optimizer& optimizer = session.optimizer();
  for (int i = 0; i < optimizer.slots(); ++i) {
    const std::string& prefix = optimizer.slot_names()[static_cast<std::size_t>(i)];
    for (const TensorSlot& slot : session.model().parameter_slots()) {
      tensors.push_back({fmt::format("{}/{}", prefix, slot.name), &slot, optimizer.slot(i).data()});
    }
  }
  return tensors;
}

std::vector<NamedTensor> CopyOf(const std::vector<SavedTensor>& tensors, Backend& backend) {
  backend.Synchronize();
  std::vector<NamedTensor> copies;
  for (const SavedTensor& tensor : tensors) {
    const TensorDesc& desc = tensor.slot->desc;
    NamedTensor& copy = copies.emplace_back(NamedTensor{.name = tensor.name, .shape = desc.shape});
    copy.data.resize(static_cast<std::size_t>(desc.shape.elements()));
    backend.ToDense(desc, tensor.flat + tensor.slot->offset, copy.data.data());
  }
  return copies;
}

std::size_t BytesOfTensors(const std::vector<TensorName>& tensors) {
  std::int64_t elements = 0;
  for (const TensorName& tensor : tensors) elements += tensor.shape.elements();
  return static_cast<std::size_t>(elements) * sizeof(float);
}

StateNames NamesOf(Session& session, const std::vector<TensorSlot>& parameters,
                   const std::vector<TensorSlot>& states) {
  StateNames names;
  for (const auto* slots : {&parameters, &states}) {
    for (const TensorSlot& slot : *slots) names.model.push_back({slot.name, slot.desc.shape});
  }
  for (const std::string& prefix : session.optimizer().slot_names()) {
    for (const TensorSlot& slot : parameters) {
      names.optimizer.push_back({fmt::format("{}/{}", prefix, slot.name), slot.desc.shape});
    }
  }
  return names;
}

// The settings that must match for a saved step number to mean the same samples; but for the number
// of samples, without which it still means the same epoch: see TakePosition.
nlohmann::json RunSettings(const Session& session) {
  return {{"examples", session.plan().examples},
          {"globalBatch", session.plan().global_batch},
          {"seed", session.training().seed},
          {"dataSeed", session.data_seed()},
          {"shuffle", session.training().dataset.shuffle},
          {"optimizer", session.training().optimizer.name}};
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
  // Earlier versions did not save whether the run shuffles.
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

absl::Status ExpectAll(const TensorsByName& found, const std::vector<TensorName>& wanted) {
  for (const TensorName& tensor : wanted) {
    LOCKSTEP_RETURN_IF_ERROR(Expect(found, tensor.name, tensor.shape));
  }
  return absl::OkStatus();
}

// A run that starts from another value diverges in its first step, whatever its learning rate is.
absl::Status ExpectFinite(const TensorsByName& found, const std::vector<TensorName>& wanted) {
  for (const TensorName& tensor : wanted) {
    for (const float value : found.at(tensor.name)->data) {
      if (std::isfinite(value)) continue;
      return absl::DataLossError(
          fmt::format("tensor '{}': found {}, expected finite numbers", tensor.name, value));
    }
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
  LOCKSTEP_ASSIGN_OR_RETURN(const RunState state, RunStateFromJson(snapshot.state.value(
                                                      "run", nlohmann::json::object())));
  if (state.step == snapshot.step) return state;
  return OfCheckpoint(snapshot,
                      absl::DataLossError(fmt::format(
                          "its run state is of step {}, expected the same step", state.step)));
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
  }
  LogWarning(
      state.step > snapshot.step
          ? "the training samples are not those of the checkpoint: the rest of its epoch is left "
            "out, and samples that are held out now may have been trained on"
          : "the training samples are not those of the checkpoint: the epoch that it is in may "
            "leave some out or use some twice, and samples that are held out now may have been "
            "trained on",
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

// Leaves tensors that are not found as they are.
void Restore(const TensorsByName& found, const std::vector<SavedTensor>& tensors,
             Backend& backend) {
  for (const SavedTensor& tensor : tensors) {
    const auto given = found.find(tensor.name);
    if (given == found.end()) continue;
    backend.FromDense(given->second->data.data(), tensor.slot->desc,
                      tensor.flat + tensor.slot->offset);
  }
}

}  // namespace

std::optional<std::int64_t> TrainingExamples(const nlohmann::json& state) {
  const nlohmann::json settings = state.value("settings", nlohmann::json::object());
  const auto examples = settings.find("examples");
  if (examples == settings.end() || !examples->is_number_integer()) return std::nullopt;
  const auto count = examples->get<std::int64_t>();
  return count > 0 ? std::optional(count) : std::nullopt;
}

std::string ModelHash(Session& session) {
  std::uint64_t hash = kEmptyDigest;
  for (const TensorName& tensor : WholeNames(session).model) {
    hash = Digest(fmt::format("{}{};", tensor.name, tensor.shape.ToString()), hash);
  }
  return fmt::format("{:016x}", hash);
}

std::vector<NamedTensor> CopyModel(Session& session) {
  return CopyOf(ModelTensors(session), session.backend());
}

StateTensors CopyTensors(Session& session) {
  return {.model = CopyModel(session),
          .optimizer = CopyOf(OptimizerTensors(session), session.backend())};
}

StateNames OwnNames(Session& session) {
  return NamesOf(session, session.model().parameter_slots(), session.model().state_slots());
}

StateNames WholeNames(Session& session) {
  return NamesOf(session, session.model().whole_parameter_slots(),
                 session.model().whole_state_slots());
}

void TakeTensors(const std::vector<NamedTensor>& tensors, Session& session) {
  const TensorsByName found = ByName(tensors);
  for (const auto& own : {ModelTensors(session), OptimizerTensors(session)}) {
    Restore(found, own, session.backend());
  }
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

std::size_t SnapshotBytes(Session& session) {
  return ModelBytes(session) + BytesOfTensors(WholeNames(session).optimizer);
}

std::size_t ModelBytes(Session& session) {
  return BytesOfTensors(WholeNames(session).model);
}

// The optimizer's file is read after the model's, whose bytes are gone by then.
std::size_t BytesWhileRead(std::size_t model, std::size_t read) {
  const std::size_t optimizer = read - model;
  return model + std::max(model, 2 * optimizer);
}

absl::Status RestoreSnapshot(const Snapshot& snapshot, Session& session, RunState& state) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSettings(snapshot, session));
  LOCKSTEP_ASSIGN_OR_RETURN(RunState saved, RunStateOf(snapshot));
  const TensorsByName model = ByName(snapshot.model), optimizer = ByName(snapshot.optimizer);
  const StateNames names = WholeNames(session);
  LOCKSTEP_RETURN_IF_ERROR(OfCheckpoint(snapshot, ExpectAll(model, names.model)));
  LOCKSTEP_RETURN_IF_ERROR(OfCheckpoint(snapshot, ExpectAll(optimizer, names.optimizer)));
  LOCKSTEP_RETURN_IF_ERROR(TakePosition(snapshot, session, saved));
  Restore(model, ModelTensors(session), session.backend());
  Restore(optimizer, OptimizerTensors(session), session.backend());
  state = saved;
  if (IsOfAnotherEvaluation(saved, session)) ForgetEvaluations(state);
  KeepBestOf(session.training(), state);
  return absl::OkStatus();
}

absl::Status RestoreModel(const Snapshot& snapshot, Session& session) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSettings(snapshot, session));
  const TensorsByName model = ByName(snapshot.model);
  LOCKSTEP_RETURN_IF_ERROR(OfCheckpoint(snapshot, ExpectAll(model, WholeNames(session).model)));
  Restore(model, ModelTensors(session), session.backend());
  return absl::OkStatus();
}

absl::StatusOr<TakenWeights> TakeWeights(const std::vector<NamedTensor>& tensors,
                                         const std::vector<std::string>& exclude,
                                         Session& session) {
  TensorsByName found = ByName(tensors);
  const std::vector<TensorName> all = WholeNames(session).model;
  std::vector<TensorName> wanted;
  std::vector<bool> is_used(exclude.size());
  TakenWeights result;
  for (const TensorName& tensor : all) {
    bool is_excluded = false;
    for (std::size_t i = 0; i < exclude.size(); ++i) {
      if (tensor.name.find(exclude[i]) == std::string::npos) continue;
      is_excluded = is_used[i] = true;
    }
    if (!is_excluded) {
      wanted.push_back(tensor);
      continue;
    }
    ++result.excluded;
    found.erase(tensor.name);
  }
  for (std::size_t i = 0; i < exclude.size(); ++i) {
    if (is_used[i]) continue;
    return absl::InvalidArgumentError(fmt::format(
        "initialWeights.exclude[{}]: found \"{}\", expected a part of a tensor's name, {}", i,
        exclude[i],
        all.empty() ? "of which the model has none"
                    : fmt::format("such as \"{}\"", all.back().name)));
  }
  LOCKSTEP_RETURN_IF_ERROR(ExpectAll(found, wanted));
  LOCKSTEP_RETURN_IF_ERROR(ExpectFinite(found, wanted));
  Restore(found, ModelTensors(session), session.backend());
  for (const TensorName& tensor : wanted) {
    found.erase(tensor.name);
    result.taken.push_back(tensor.name);
  }
  for (const auto& [name, tensor] : found) result.unused.push_back(name);
  return result;
}

}  // namespace lockstep::train
