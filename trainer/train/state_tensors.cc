#include "trainer/train/state_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"
#include "trainer/checkpoint/average_tensors.h"

namespace lockstep::train {
namespace {

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

// The running statistics.
std::vector<SavedTensor> ModelStates(Session& session) {
  std::vector<SavedTensor> tensors;
  for (const TensorSlot& slot : session.model().state_slots()) {
    tensors.push_back({slot.name, &slot, session.model().states().data()});
  }
  return tensors;
}

// `parameters`: where they are.
std::vector<SavedTensor> ModelTensors(Session& session, std::span<float> parameters) {
  std::vector<SavedTensor> tensors;
  for (const TensorSlot& slot : session.model().parameter_slots()) {
    tensors.push_back({slot.name, &slot, parameters.data()});
  }
  std::ranges::move(ModelStates(session), std::back_inserter(tensors));
  return tensors;
}
std::vector<SavedTensor> ModelTensors(Session& session) {
  const bool is_divided = session.shares_updates();
  LOCKSTEP_CHECK(!is_divided || !session.optimizer().is_average_in_place(),
                 "state tensors: no rank has the parameters that are trained");
  return ModelTensors(session,
                      is_divided ? session.model().parameters() : session.optimizer().trained());
}

void ExpectWhole(const Session& session) {
  LOCKSTEP_CHECK(!session.shares_updates(), "state tensors: this rank has but a share of them");
}

std::vector<SavedTensor> AverageTensors(Session& session) {
  std::vector<SavedTensor> tensors;
  if (!session.optimizer().has_average()) return tensors;
  for (const TensorSlot& slot : session.model().parameter_slots()) {
    tensors.push_back({AverageOf(slot.name), &slot, session.optimizer().average().data()});
  }
  return tensors;
}

std::vector<SavedTensor> OptimizerTensors(Session& session) {
  std::vector<SavedTensor> tensors;
  Optimizer& optimizer = session.optimizer();
  for (int i = 0; i < optimizer.rule_slots(); ++i) {
    for (const TensorSlot& slot : session.model().parameter_slots()) {
      tensors.push_back({optimizer.SlotTensor(i, slot.name), &slot, optimizer.slot(i).data()});
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

// The parameters and running statistics of all stages.
std::vector<TensorName> WholeModel(const Session& session) {
  std::vector<TensorName> names;
  const Model& model = session.model();
  for (const auto* slots : {&model.whole_parameter_slots(), &model.whole_state_slots()}) {
    for (const TensorSlot& slot : *slots) names.push_back({slot.name, slot.desc.shape});
  }
  return names;
}

StateNames NamesOf(Session& session, const std::vector<TensorSlot>& parameters,
                   const std::vector<TensorSlot>& states) {
  StateNames names;
  for (const auto* slots : {&parameters, &states}) {
    for (const TensorSlot& slot : *slots) names.model.push_back({slot.name, slot.desc.shape});
  }
  const Optimizer& optimizer = session.optimizer();
  for (const TensorSlot& slot : parameters) {
    if (!optimizer.has_average()) break;
    names.model.push_back({AverageOf(slot.name), slot.desc.shape});
  }
  for (int i = 0; i < optimizer.rule_slots(); ++i) {
    for (const TensorSlot& slot : parameters) {
      names.optimizer.push_back({optimizer.SlotTensor(i, slot.name), slot.desc.shape});
    }
  }
  return names;
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

bool HasAverages(const TensorsByName& model) {
  return std::ranges::any_of(model, [](const auto& tensor) { return IsAverage(tensor.first); });
}

// Gives each average the name of its parameter.
void UseAverages(TensorsByName& model) {
  TensorsByName averages;
  for (const auto& [name, tensor] : model) {
    const auto average = model.find(AverageOf(name));
    if (average != model.end()) averages[name] = average->second;
  }
  for (const auto& [name, tensor] : averages) model[name] = tensor;
}

// What a run needs of a checkpoint's model.safetensors. One that did not average its parameters has
// no averages.
std::vector<TensorName> NeededOf(const TensorsByName& model, Session& session) {
  return HasAverages(model) ? WholeNames(session).model : WholeModel(session);
}

}  // namespace

TensorsByName ByName(const std::vector<NamedTensor>& tensors) {
  TensorsByName by_name;
  for (const NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  return by_name;
}

std::string ModelHash(Session& session) {
  std::uint64_t hash = kEmptyDigest;
  for (const TensorName& tensor : WholeModel(session)) {
    hash = Digest(fmt::format("{}{};", tensor.name, tensor.shape.ToString()), hash);
  }
  return fmt::format("{:016x}", hash);
}

std::vector<NamedTensor> CopyModel(Session& session) {
  Optimizer& optimizer = session.optimizer();
  if (!optimizer.has_average()) return CopyOf(ModelTensors(session), session.backend());
  ExpectWhole(session);
  return CopyModelWith(optimizer.average(), session);
}

std::vector<NamedTensor> CopyModelWith(std::span<float> parameters, Session& session) {
  return CopyOf(ModelTensors(session, parameters), session.backend());
}

std::vector<NamedTensor> CopyStates(Session& session) {
  return CopyOf(ModelStates(session), session.backend());
}

StateTensors CopyTensors(Session& session) {
  ExpectWhole(session);
  std::vector<SavedTensor> model = ModelTensors(session);
  std::ranges::move(AverageTensors(session), std::back_inserter(model));
  return {.model = CopyOf(model, session.backend()),
          .optimizer = CopyOf(OptimizerTensors(session), session.backend())};
}

StateNames OwnNames(Session& session) {
  return NamesOf(session, session.model().parameter_slots(), session.model().state_slots());
}

StateNames WholeNames(Session& session) {
  return NamesOf(session, session.model().whole_parameter_slots(),
                 session.model().whole_state_slots());
}

bool HasAverages(const std::vector<NamedTensor>& model) {
  return HasAverages(ByName(model));
}

absl::Status ExpectTensors(const std::vector<NamedTensor>& model,
                           const std::vector<NamedTensor>& optimizer, Session& session) {
  const TensorsByName of_model = ByName(model);
  LOCKSTEP_RETURN_IF_ERROR(ExpectAll(of_model, NeededOf(of_model, session)));
  return ExpectAll(ByName(optimizer), WholeNames(session).optimizer);
}

void TakeTensors(const std::vector<NamedTensor>& model, const std::vector<NamedTensor>& optimizer,
                 Session& session) {
  const TensorsByName of_model = ByName(model);
  Restore(of_model, ModelTensors(session), session.backend());
  if (session.shares_updates()) return;
  Restore(ByName(optimizer), OptimizerTensors(session), session.backend());
  if (!session.optimizer().has_average()) return;
  if (!HasAverages(of_model)) session.optimizer().BeginAverage();
  Restore(of_model, AverageTensors(session), session.backend());
}

absl::Status TakeModel(const std::vector<NamedTensor>& model, Session& session) {
  TensorsByName found = ByName(model);
  if (session.training().ema) UseAverages(found);
  LOCKSTEP_RETURN_IF_ERROR(ExpectAll(found, WholeModel(session)));
  Restore(found, ModelTensors(session), session.backend());
  return absl::OkStatus();
}

absl::StatusOr<TakenWeights> TakeWeights(const std::vector<NamedTensor>& tensors,
                                         const std::vector<std::string>& exclude,
                                         Session& session) {
  TensorsByName found = ByName(tensors);
  const std::vector<TensorName> all = WholeModel(session);
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

std::size_t SnapshotBytes(Session& session) {
  return ModelFileBytes(session) + BytesOfTensors(WholeNames(session).optimizer);
}

std::size_t ModelFileBytes(Session& session) {
  return BytesOfTensors(WholeNames(session).model);
}

std::size_t ModelBytes(Session& session) {
  return BytesOfTensors(WholeModel(session));
}

// The optimizer's file is read after the model's, whose bytes are gone by then.
std::size_t BytesWhileRead(std::size_t model, std::size_t read) {
  const std::size_t optimizer = read - model;
  return model + std::max(model, 2 * optimizer);
}

}  // namespace lockstep::train
