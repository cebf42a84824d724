#include "trainer/train/share_tensors.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "trainer/backend/host_view.h"
#include "trainer/checkpoint/average_tensors.h"
#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

using NameOf = std::function<std::string(const std::string& parameter)>;

std::string OfParameter(const std::string& parameter) {
  return parameter;
}

std::span<float> PartOf(std::span<float> whole, const FlatRange& part) {
  return whole.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size()));
}

FlatRange RangeOf(const TensorSlot& tensor) {
  return {tensor.offset, tensor.offset + tensor.size};
}

// Overwrites `values` in device memory on every rank by those of rank `root`.
absl::Status BroadcastValues(std::span<float> values, int root, Session& session,
                             Strategy& strategy) {
  if (values.empty()) return absl::OkStatus();
  HostView view(session.backend(), values);
  LOCKSTEP_RETURN_IF_ERROR(strategy.Broadcast(std::as_writable_bytes(view.floats()), root));
  if (session.rank() != root) view.Commit();
  return absl::OkStatus();
}

// Moves the tensors of flat values of which each rank has its share. A share may begin or end
// within a tensor, and a tensor may have a layout of its own, so each passes as a whole through
// device memory of the same layout.
class Passage {
 public:
  Passage(Session& session, Strategy& strategy) : session_(session), strategy_(strategy) {
    std::int64_t largest = 0;
    for (const TensorSlot& tensor : tensors()) largest = std::max(largest, tensor.size);
    arena_.Reserve(static_cast<std::size_t>(largest) * sizeof(float));
    arena_.Allocate(session.backend().memory());
  }
  // The memory must outlive the work that is queued on it.
  ~Passage() { session_.backend().Synchronize(); }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  // Returns the tensors to a rank that wants them. `own`: this rank's share of the values.
  absl::StatusOr<std::vector<NamedTensor>> Gather(std::span<float> own, const NameOf& name,
                                                  bool wants) {
    std::vector<NamedTensor> gathered;
    for (const TensorSlot& tensor : tensors()) {
      LOCKSTEP_RETURN_IF_ERROR(Assemble(tensor, own));
      if (!wants) continue;
      NamedTensor& copy =
          gathered.emplace_back(NamedTensor{.name = name(tensor.name), .shape = tensor.desc.shape});
      copy.data.resize(static_cast<std::size_t>(tensor.desc.shape.elements()));
      session_.backend().ToDense(tensor.desc, passing(), copy.data.data());
    }
    return gathered;
  }

  // Gives each rank its share of the tensors that rank 0 finds in `given`.
  absl::Status Scatter(const TensorsByName& given, const NameOf& name, std::span<float> own) {
    Backend& backend = session_.backend();
    for (const TensorSlot& tensor : tensors()) {
      if (session_.rank() == 0) {
        backend.FromDense(given.at(name(tensor.name))->data.data(), tensor.desc, passing());
      }
      const std::span<float> values(passing(), static_cast<std::size_t>(tensor.size));
      LOCKSTEP_RETURN_IF_ERROR(BroadcastValues(values, /*root=*/0, session_, strategy_));
      const FlatRange part = Intersection(RangeOf(tensor), share());
      if (part.size() == 0) continue;
      backend.Copy(PassingPart(tensor, part).data(), OwnPart(own, part).data(), BytesOf(part));
    }
    return absl::OkStatus();
  }

 private:
  // Makes this tensor whole where it passes, on every rank.
  absl::Status Assemble(const TensorSlot& tensor, std::span<float> own) {
    for (std::size_t rank = 0; rank < session_.update_shares().size(); ++rank) {
      const FlatRange part = Intersection(RangeOf(tensor), session_.update_shares()[rank]);
      if (part.size() == 0) continue;
      const std::span<float> values = PassingPart(tensor, part);
      const int root = static_cast<int>(rank);
      if (root == session_.rank()) {
        session_.backend().Copy(OwnPart(own, part).data(), values.data(), BytesOf(part));
      }
      LOCKSTEP_RETURN_IF_ERROR(BroadcastValues(values, root, session_, strategy_));
    }
    return absl::OkStatus();
  }

  const std::vector<TensorSlot>& tensors() const { return session_.model().parameter_slots(); }
  const FlatRange& share() const { return session_.optimizer().share(); }
  float* passing() const { return arena_.At<float>(0); }
  static std::size_t BytesOf(const FlatRange& part) {
    return static_cast<std::size_t>(part.size()) * sizeof(float);
  }
  std::span<float> PassingPart(const TensorSlot& tensor, const FlatRange& part) const {
    return {passing() + (part.begin - tensor.offset), static_cast<std::size_t>(part.size())};
  }
  std::span<float> OwnPart(std::span<float> own, const FlatRange& part) const {
    return PartOf(own, {part.begin - share().begin, part.end - share().begin});
  }

  Session& session_;
  Strategy& strategy_;
  Arena arena_;
};

NameOf NameInSlot(const Optimizer& optimizer, int slot) {
  return [&optimizer, slot](const std::string& parameter) {
    return optimizer.SlotTensor(slot, parameter);
  };
}

// The model's tensors, of whose parameters each rank has its share: `own`.
absl::StatusOr<std::vector<NamedTensor>> GatherModelOf(std::span<float> own, Session& session,
                                                       Passage& passage, bool wants) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<NamedTensor> model,
                            passage.Gather(own, &OfParameter, wants));
  if (!wants) return model;
  std::ranges::move(CopyStates(session), std::back_inserter(model));  // a rank has those of all
  return model;
}

// What a checkpoint has in model.safetensors. Either the parameters or their averages are in the
// model's memory, where every rank has all of them.
absl::StatusOr<std::vector<NamedTensor>> GatherModelFile(Session& session, Passage& passage,
                                                         bool wants) {
  Optimizer& optimizer = session.optimizer();
  const auto in_memory = [&] {
    return wants ? CopyModelWith(session.model().parameters(), session)
                 : std::vector<NamedTensor>();
  };
  if (!optimizer.has_average()) return in_memory();
  std::vector<NamedTensor> model, averages;
  if (optimizer.is_average_in_place()) {
    LOCKSTEP_ASSIGN_OR_RETURN(model, GatherModelOf(optimizer.trained(), session, passage, wants));
    averages = in_memory();
    averages.resize(wants ? session.model().parameter_slots().size() : 0);
    for (NamedTensor& tensor : averages) tensor.name = AverageOf(tensor.name);
  } else {
    model = in_memory();
    LOCKSTEP_ASSIGN_OR_RETURN(averages, passage.Gather(optimizer.average(), &AverageOf, wants));
  }
  std::ranges::move(averages, std::back_inserter(model));
  return model;
}

}  // namespace

bool IsWholeInMemory(const Membership& membership, std::int64_t total_steps) {
  const std::int64_t step = membership.members.front().step;
  if (step < 0 || step > total_steps) return false;
  return std::ranges::all_of(membership.members,
                             [step](const Member& member) { return member.step == step; });
}

absl::Status ExchangeParameters(Session& session, Strategy& strategy) {
  const std::span<float> parameters = session.model().parameters();
  for (std::size_t rank = 0; rank < session.update_shares().size(); ++rank) {
    LOCKSTEP_RETURN_IF_ERROR(BroadcastValues(PartOf(parameters, session.update_shares()[rank]),
                                             static_cast<int>(rank), session, strategy));
  }
  return absl::OkStatus();
}

absl::Status ScatterState(const Snapshot* given, Session& session, Strategy& strategy) {
  for (const std::span<float> values : {session.model().parameters(), session.model().states()}) {
    LOCKSTEP_RETURN_IF_ERROR(BroadcastValues(values, /*root=*/0, session, strategy));
  }
  struct {
    bool slots, averages;
  } has{.slots = given != nullptr && !given->optimizer.empty(),
        .averages = given != nullptr && HasAverages(given->model)};
  LOCKSTEP_RETURN_IF_ERROR(
      strategy.Broadcast(std::as_writable_bytes(std::span(&has, 1)), /*root=*/0));
  Optimizer& optimizer = session.optimizer();
  optimizer.ResetSlots();  // the average begins at the parameters
  Passage passage(session, strategy);
  const TensorsByName slots = given == nullptr ? TensorsByName() : ByName(given->optimizer);
  for (int i = 0; has.slots && i < optimizer.rule_slots(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(passage.Scatter(slots, NameInSlot(optimizer, i), optimizer.slot(i)));
  }
  if (!has.averages || !optimizer.has_average()) return absl::OkStatus();
  const TensorsByName averages = given == nullptr ? TensorsByName() : ByName(given->model);
  return passage.Scatter(averages, &AverageOf, optimizer.average());
}

absl::StatusOr<StateTensors> GatherShares(Gathers needs, Session& session, Strategy& strategy,
                                          const std::vector<NamedTensor>* best) {
  LOCKSTEP_RETURN_IF_ERROR(
      strategy.Broadcast(std::as_writable_bytes(std::span(&needs, 1)), /*root=*/0));
  const bool wants = session.rank() == 0;
  StateTensors gathered;
  if (needs == Gathers::kNothing) return gathered;
  if (needs == Gathers::kModel && best == nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(gathered.model, GatherModel(session, strategy, wants));
    return gathered;
  }
  if (wants && best != nullptr) (needs == Gathers::kModel ? gathered.model : gathered.best) = *best;
  if (needs == Gathers::kModel) return gathered;
  Passage passage(session, strategy);
  LOCKSTEP_ASSIGN_OR_RETURN(gathered.model, GatherModelFile(session, passage, wants));
  Optimizer& optimizer = session.optimizer();
  for (int i = 0; i < optimizer.rule_slots(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<NamedTensor> slot,
                              passage.Gather(optimizer.slot(i), NameInSlot(optimizer, i), wants));
    std::ranges::move(slot, std::back_inserter(gathered.optimizer));
  }
  return gathered;
}

absl::StatusOr<std::vector<NamedTensor>> GatherModel(Session& session, Strategy& strategy,
                                                     bool wants) {
  Optimizer& optimizer = session.optimizer();
  if (!optimizer.has_average() || optimizer.is_average_in_place()) {
    if (!wants) return std::vector<NamedTensor>();
    return CopyModelWith(session.model().parameters(), session);
  }
  Passage passage(session, strategy);
  return GatherModelOf(optimizer.average(), session, passage, wants);
}

}  // namespace lockstep::train
