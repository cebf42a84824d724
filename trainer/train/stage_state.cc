#include "trainer/train/stage_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "trainer/checkpoint/average_tensors.h"

namespace lockstep::train {
namespace {

// The most bytes of the names of a stage's tensors: a wrong length must not make rank 0 allocate
// all of its memory.
constexpr std::uint64_t kMostNameBytes = std::uint64_t{64} << 20U;

std::span<std::byte> BytesOf(auto& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
std::span<std::byte> BytesOf(std::vector<float>& floats) {
  return std::as_writable_bytes(std::span(floats));
}

// The names of a stage's tensors, in the order in which it sends or takes them.
using Names = std::vector<std::string>;

// Tells a tensor of the best model from the model's own: no optimizer has a slot of this name.
constexpr char kBestPrefix[] = "best/";

Names NamesOf(const auto& tensors) {  // StateNames or StateTensors
  Names all;
  for (const auto* part : {&tensors.model, &tensors.optimizer}) {
    for (const auto& tensor : *part) all.push_back(tensor.name);
  }
  for (const auto& tensor : tensors.best) all.push_back(kBestPrefix + tensor.name);
  return all;
}

absl::Status SendNames(const Names& names, int stage, StageGroups& groups) {
  std::string text = nlohmann::json(names).dump();
  std::uint64_t size = text.size();
  LOCKSTEP_RETURN_IF_ERROR(groups.ToRankZero(stage, BytesOf(size)));
  return groups.ToRankZero(stage, std::as_writable_bytes(std::span(text)));
}

absl::StatusOr<Names> TakeNames(int stage, StageGroups& groups) {
  std::uint64_t size = 0;
  LOCKSTEP_RETURN_IF_ERROR(groups.ToRankZero(stage, BytesOf(size)));
  if (size > kMostNameBytes) {
    return absl::FailedPreconditionError(
        fmt::format("stage {}: found {} bytes of names of tensors, expected at most {}", stage,
                    size, kMostNameBytes));
  }
  std::string text(size, '\0');
  LOCKSTEP_RETURN_IF_ERROR(groups.ToRankZero(stage, std::as_writable_bytes(std::span(text))));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool has_texts = json.is_array() && std::ranges::all_of(json, [](const auto& name) {
                           return name.is_string();
                         });
  if (has_texts) return json.get<Names>();
  return absl::FailedPreconditionError(
      fmt::format("stage {}: found names of tensors that are no list of texts", stage));
}

template <typename Tensor>  // NamedTensor, const or not
std::map<std::string, Tensor*> ByName(auto& tensors) {
  std::map<std::string, Tensor*> by_name;
  for (auto* part : {&tensors.model, &tensors.optimizer}) {
    for (Tensor& tensor : *part) by_name[tensor.name] = &tensor;
  }
  for (Tensor& tensor : tensors.best) by_name[kBestPrefix + tensor.name] = &tensor;
  return by_name;
}

// As WithAverages, without copies.
std::map<std::string, const NamedTensor*> WhatIsGiven(const Snapshot& given) {
  std::map<std::string, const NamedTensor*> by_name = ByName<const NamedTensor>(given);
  if (!given.best.empty()) return by_name;
  for (const NamedTensor& tensor : given.model) {
    if (IsAverage(tensor.name)) continue;
    const auto average = by_name.find(AverageOf(tensor.name));
    by_name[kBestPrefix + tensor.name] = average == by_name.end() ? &tensor : average->second;
  }
  return by_name;
}

// Rank 0's side for one stage.
absl::Status GiveTo(int stage, const std::map<std::string, const NamedTensor*>& given,
                    StageGroups& groups) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Names names, TakeNames(stage, groups));
  std::vector<std::uint8_t> has(names.size());
  std::ranges::transform(names, has.begin(), [&](const std::string& name) {
    return static_cast<std::uint8_t>(given.contains(name));
  });
  LOCKSTEP_RETURN_IF_ERROR(groups.FromRankZero(stage, std::as_writable_bytes(std::span(has))));
  for (const std::string& name : names) {
    const auto tensor = given.find(name);
    if (tensor == given.end()) continue;
    std::vector<float> data = tensor->second->data;  // a copy: FromRankZero takes writable memory
    LOCKSTEP_RETURN_IF_ERROR(groups.FromRankZero(stage, BytesOf(data)));
  }
  return absl::OkStatus();
}

absl::Status TakeFromRankZero(Session& session, StageGroups& groups,
                              std::vector<NamedTensor>* best) {
  const int stage = groups.place().stage;
  StateNames own = OwnNames(session);
  if (best != nullptr) own.best = own.model;
  const Names names = NamesOf(own);
  LOCKSTEP_RETURN_IF_ERROR(SendNames(names, stage, groups));
  std::vector<std::uint8_t> has(names.size());
  LOCKSTEP_RETURN_IF_ERROR(groups.FromRankZero(stage, std::as_writable_bytes(std::span(has))));
  StateTensors taken;
  std::size_t next = 0;
  const auto take = [&](const std::vector<TensorName>& part,
                        std::vector<NamedTensor>& into) -> absl::Status {
    for (const TensorName& tensor : part) {
      if (has[next++] == 0) continue;
      NamedTensor& given =
          into.emplace_back(NamedTensor{.name = tensor.name, .shape = tensor.shape});
      given.data.resize(static_cast<std::size_t>(tensor.shape.elements()));
      LOCKSTEP_RETURN_IF_ERROR(groups.FromRankZero(stage, BytesOf(given.data)));
    }
    return absl::OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(take(own.model, taken.model));
  LOCKSTEP_RETURN_IF_ERROR(take(own.optimizer, taken.optimizer));
  if (best != nullptr) LOCKSTEP_RETURN_IF_ERROR(take(own.best, *best));
  TakeTensors(taken.model, taken.optimizer, session);
  return absl::OkStatus();
}

// Returns copies of those tensors of this stage that rank 0 needs.
StateTensors CopyOwn(Gathers needs, Session& session, std::vector<NamedTensor> best) {
  if (needs != Gathers::kAll && !best.empty()) return {.model = std::move(best), .optimizer = {}};
  if (needs != Gathers::kAll) return {.model = CopyModel(session), .optimizer = {}};
  StateTensors own = CopyTensors(session);
  own.best = std::move(best);
  return own;
}

absl::Status SendTensors(Gathers needs, Session& session, StageGroups& groups,
                         std::vector<NamedTensor> best) {
  const int stage = groups.place().stage;
  StateTensors own = CopyOwn(needs, session, std::move(best));
  LOCKSTEP_RETURN_IF_ERROR(SendNames(NamesOf(own), stage, groups));
  for (auto* part : {&own.model, &own.optimizer, &own.best}) {
    for (NamedTensor& tensor : *part) {
      LOCKSTEP_RETURN_IF_ERROR(groups.ToRankZero(stage, BytesOf(tensor.data)));
    }
  }
  return absl::OkStatus();
}

// Fills the tensors of `stage` in `whole`.
absl::Status TakeFromStage(int stage, const std::map<std::string, NamedTensor*>& whole,
                           StageGroups& groups) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Names names, TakeNames(stage, groups));
  for (const std::string& name : names) {
    const auto tensor = whole.find(name);
    if (tensor == whole.end()) {
      return absl::FailedPreconditionError(
          fmt::format("stage {}: found tensor '{}', which the model does not have", stage, name));
    }
    std::vector<float>& data = tensor->second->data;
    data.resize(static_cast<std::size_t>(tensor->second->shape.elements()));
    LOCKSTEP_RETURN_IF_ERROR(groups.ToRankZero(stage, BytesOf(data)));
  }
  return absl::OkStatus();
}

// All tensors, of which only those of this stage have data.
StateTensors WholeWithOwn(Gathers needs, Session& session, std::vector<NamedTensor> best) {
  StateNames names = WholeNames(session);
  if (needs != Gathers::kAll) {  // CopyModel gives the averages under their parameters' names
    std::erase_if(names.model, [](const TensorName& tensor) { return IsAverage(tensor.name); });
  }
  StateTensors own = CopyOwn(needs, session, std::move(best)), whole;
  const std::map<std::string, NamedTensor*> by_name = ByName<NamedTensor>(own);
  const auto fill = [&](const std::vector<TensorName>& from, std::vector<NamedTensor>& to,
                        const std::string& prefix = "") {
    for (const TensorName& tensor : from) {
      const auto found = by_name.find(prefix + tensor.name);
      to.push_back(found == by_name.end() ? NamedTensor{.name = tensor.name, .shape = tensor.shape}
                                          : std::move(*found->second));
    }
  };
  fill(names.model, whole.model);
  if (needs == Gathers::kAll) fill(names.optimizer, whole.optimizer);
  if (!own.best.empty()) fill(names.model, whole.best, kBestPrefix);
  return whole;
}

bool HasState(const Member& member, std::int64_t step) {
  return member.step == step;
}

}  // namespace

std::vector<int> RanksWithState(const Membership& membership, int stages,
                                std::int64_t total_steps) {
  std::vector<std::int64_t> steps;
  for (const Member& member : membership.members) {
    if (member.step >= 0 && member.step <= total_steps) steps.push_back(member.step);
  }
  std::ranges::sort(steps, std::greater<>());
  for (const std::int64_t step : steps) {
    std::vector<int> ranks(static_cast<std::size_t>(stages), -1);
    for (int rank = membership.world(); rank-- > 0;) {
      if (!HasState(membership.members[static_cast<std::size_t>(rank)], step)) continue;
      ranks[static_cast<std::size_t>(rank % stages)] = rank;
    }
    if (std::ranges::find(ranks, -1) == ranks.end()) return ranks;
  }
  return {};
}

absl::Status GiveTensors(const Snapshot* given, Session& session, StageGroups& groups,
                         std::vector<NamedTensor>* best) {
  const StagePlace& place = groups.place();
  if (place.pipeline != 0) return absl::OkStatus();
  if (!place.is_first()) return TakeFromRankZero(session, groups, best);
  std::map<std::string, const NamedTensor*> by_name;
  if (given != nullptr) by_name = WhatIsGiven(*given);
  for (int stage = 1; stage < place.stages; ++stage) {
    LOCKSTEP_RETURN_IF_ERROR(GiveTo(stage, by_name, groups));
  }
  return absl::OkStatus();
}

absl::StatusOr<StateTensors> GatherTensors(Gathers needs, Session& session, StageGroups& groups,
                                           std::vector<NamedTensor> best) {
  const StagePlace& place = groups.place();
  if (place.pipeline != 0) return StateTensors();
  if (!place.is_first()) {
    LOCKSTEP_RETURN_IF_ERROR(groups.FromRankZero(place.stage, BytesOf(needs)));
    if (needs != Gathers::kNothing) {
      LOCKSTEP_RETURN_IF_ERROR(SendTensors(needs, session, groups, std::move(best)));
    }
    return StateTensors();
  }
  for (int stage = 1; stage < place.stages; ++stage) {
    LOCKSTEP_RETURN_IF_ERROR(groups.FromRankZero(stage, BytesOf(needs)));
  }
  if (needs == Gathers::kNothing) return StateTensors();
  StateTensors whole = WholeWithOwn(needs, session, std::move(best));
  const std::map<std::string, NamedTensor*> by_name = ByName<NamedTensor>(whole);
  for (int stage = 1; stage < place.stages; ++stage) {
    LOCKSTEP_RETURN_IF_ERROR(TakeFromStage(stage, by_name, groups));
  }
  return whole;
}

}  // namespace lockstep::train
