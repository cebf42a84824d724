#include "trainer/strategy/parameter_server/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/optim/learning_rate.h"
#include "trainer/optim/optimizer_rule.h"

namespace lockstep::train {
namespace {

std::int64_t BytesOf(std::int64_t floats) {
  return floats * static_cast<std::int64_t>(sizeof(float));
}

// The segments of [begin, end), relative to `begin`.
std::vector<OptimizerSegment> PartOf(const std::vector<OptimizerSegment>& segments,
                                     std::int64_t begin, std::int64_t end) {
  std::vector<OptimizerSegment> part;
  for (const OptimizerSegment& segment : segments) {
    const std::int64_t first = std::max(begin, segment.begin), last = std::min(end, segment.end);
    if (first >= last) continue;
    part.push_back({.begin = first - begin, .end = last - begin, .decays = segment.decays});
  }
  return part;
}

// Whether the ranges are ascending, disjoint and inside of [0, end).
bool AreInOrder(const ShardRanges& ranges, std::int64_t end) {
  std::int64_t from = 0;
  for (const FlatRange& range : ranges) {
    if (range.begin < from || range.end < range.begin || range.end > end) return false;
    from = range.end;
  }
  return true;
}

// Whether the runs are ascending, inside of [0, end), and keep from nothing to everything.
bool AreInOrder(const std::vector<KeptStates>& runs, std::int64_t end) {
  std::int64_t from = 0;
  for (const KeptStates& run : runs) {
    if (run.end < from || run.end > end || !(run.kept >= 0 && run.kept <= 1)) return false;
    from = run.end;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Shard>> Shard::Create(const api::TrainingSpec& training,
                                                     Backend& backend) {
  LOCKSTEP_CHECK(backend.IsHost(), "parameter server: {} is no host back end", backend.Name());
  LOCKSTEP_ASSIGN_OR_RETURN(const OptimizerRuleOp rule,
                            MakeOptimizerRule(training.optimizer, training.ema, backend));
  return std::unique_ptr<Shard>(
      new Shard(training, backend, static_cast<int>(rule.slot_names.size())));
}

absl::StatusOr<Shard::Ops> Shard::MakeOps(std::size_t ranges) const {
  Ops ops;
  for (std::size_t i = 0; i < std::max<std::size_t>(ranges, 1); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(OptimizerRuleOp rule,
                              MakeOptimizerRule(training_.optimizer, training_.ema, backend_));
    ops.push_back(std::move(rule.op));
  }
  return ops;
}

absl::StatusOr<std::int64_t> Shard::FloatsToLoad(const ShardLayout& layout) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;  // far from overflow with any slots
  ShardRanges segments;
  for (const OptimizerSegment& segment : layout.segments) {
    segments.push_back({segment.begin, segment.end});
  }
  const auto is_count = [](std::int64_t count) { return count >= 0 && count < kMost; };
  if (!is_count(layout.parameters) || !is_count(layout.states) || layout.parts < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "parameter server: found {} parameters, {} statistics and {} parts, expected numbers from "
        "0 on",
        layout.parameters, layout.states, layout.parts));
  }
  if (!AreInOrder(layout.ranges, layout.parameters) || !AreInOrder(segments, layout.values()) ||
      !AreInOrder(layout.kept_states, layout.states)) {
    return absl::InvalidArgumentError(
        fmt::format("parameter server: expected ranges that ascend within {} parameters, segments "
                    "that ascend within the ranges, and shares of the statistics from 0 to 1",
                    layout.parameters));
  }
  return layout.values() * (1 + slots_) + layout.states;
}

absl::Status Shard::Load(std::uint64_t fence, ShardLayout layout, std::int64_t step,
                         std::unique_ptr<SharedContent> content, const Incarnation& leader) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::int64_t floats, FloatsToLoad(layout));
  if (content->size() != floats) {
    return absl::InvalidArgumentError(
        fmt::format("parameter server: found {} floats to load, expected {}: {} values with {} "
                    "slots and {} statistics",
                    content->size(), floats, layout.values(), slots_, layout.states));
  }
  const auto lock = Writing();
  if (leader < leader_) return absl::AbortedError("a later process leads the run");
  // The caller repeats a Load whose answer was lost. Gradients may have arrived since, so nothing
  // is replaced.
  if (fence != 0 && fence == fence_) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(Ops ops, MakeOps(layout.ranges.size()));
  fence_ = 0;  // nothing is valid until all of it is
  ops_ = std::move(ops);
  Replace(std::move(layout), step, std::move(content));
  fence_ = fence;
  return absl::OkStatus();
}

void Shard::Replace(ShardLayout layout, std::int64_t step, std::unique_ptr<SharedContent> content) {
  layout_ = std::move(layout);
  memory_ = std::move(content);
  version_ = step;
  skipped_ = layout_.skipped_steps;
  applied_ = AppliedSet(step);
  if (layout_.parts > 0) sum_.Allocate(layout_.values() + layout_.states);
}

void Shard::LeaderCame(const Incarnation& leader) {
  const auto lock = Writing();
  leader_ = std::max(leader_, leader);
}

bool Shard::IsSuperseded(const Incarnation& leader) const {
  const std::shared_lock lock(mutex_);
  return leader < leader_;
}

void Shard::Clear() {
  const auto lock = Writing();
  fence_ = 0;
}

bool Shard::ClearIfAt(std::uint64_t fence, std::int64_t version) {
  const auto lock = Writing();
  if (!CheckFence(fence).ok() || version != version_) return false;
  fence_ = 0;
  return true;
}

std::uint64_t Shard::fence() const {
  const std::shared_lock lock(mutex_);
  return fence_;
}

absl::Status Shard::Check(std::uint64_t fence) const {
  const std::shared_lock lock(mutex_);
  return CheckFence(fence);
}

ShardLayout Shard::layout() const {
  const std::shared_lock lock(mutex_);
  return layout_;
}

absl::Status Shard::CheckFence(std::uint64_t fence) const {
  if (fence_ != 0 && fence == fence_) return absl::OkStatus();
  return absl::FailedPreconditionError(fence_ == 0 ? "it was started anew and holds no values"
                                                   : "its values were loaded anew");
}

absl::StatusOr<Shard::Outcome> Shard::Push(const Gradient& gradient) {
  const auto lock = Writing();
  LOCKSTEP_RETURN_IF_ERROR(CheckFence(gradient.fence));
  absl::StatusOr<Outcome> taken;
  updates_.Run([&] { taken = Take(gradient); });
  LOCKSTEP_ASSIGN_OR_RETURN(const Outcome outcome, taken);
  if (!gradient.skip) counts_.pushed_bytes += BytesOf(layout_.values() + layout_.states);
  if (outcome.dropped) {
    ++counts_.dropped;
  } else {
    counts_.staleness.Observe(outcome.staleness);
  }
  return outcome;
}

absl::StatusOr<Shard::Outcome> Shard::Take(const Gradient& gradient) {
  if (layout_.parts > 0) return Sum(gradient);
  if (!applied_.Add(gradient.step)) return Outcome{.dropped = true};
  const std::int64_t staleness = version_ - gradient.version;
  if (!gradient.skip) {
    memory_->Update([&] {
      Update(gradient.ranges, gradient.scale);
      KeepStates();
      for (std::int64_t i = 0; i < layout_.states; ++i) states()[i] += gradient.states[i];
    });
  }
  Count(gradient.skip);
  return Outcome{.staleness = staleness};
}

void Shard::Count(bool skipped) {
  ++version_;
  if (skipped) ++skipped_;
}

void Shard::KeepStates() {
  std::int64_t begin = 0;
  for (const KeptStates& run : layout_.kept_states) {
    for (std::int64_t i = begin; i < run.end; ++i) states()[i] *= run.kept;
    begin = run.end;
  }
}

void Shard::Update(const std::vector<const float*>& gradients, float scale) {
  ++counts_.updates;
  const double rate =
      LearningRateAt(training_.learning_rate_schedule, training_.optimizer.learning_rate, version_,
                     layout_.total_steps);
  const OptimizerStep step{.learning_rate = static_cast<float>(rate),
                           .step = version_ + 1 - skipped_,
                           .gradient_scale = scale};
  float* const slots = states() + layout_.states;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < layout_.ranges.size(); ++i) {
    const std::int64_t size = layout_.ranges[i].size();
    OptimizerMemory memory{.values = values() + begin,
                           .gradients = gradients[i],
                           .slots = {},
                           .size = size,
                           .segments = PartOf(layout_.segments, begin, begin + size),
                           .step = &step};
    for (int slot = 0; slot < slots_; ++slot) {
      memory.slots.push_back(slots + slot * layout_.values() + begin);
    }
    ops_[i]->Bind(memory);
    ops_[i]->Step();
    begin += size;
  }
  backend_.Synchronize();
}

// All of the layout's floats, one after the other; none if the gradient changes nothing.
std::vector<std::span<const float>> Shard::PiecesOf(const Gradient& gradient) const {
  std::vector<std::span<const float>> pieces;
  if (gradient.skip) return pieces;
  for (std::size_t i = 0; i < layout_.ranges.size(); ++i) {
    pieces.emplace_back(gradient.ranges[i], static_cast<std::size_t>(layout_.ranges[i].size()));
  }
  pieces.emplace_back(gradient.states, static_cast<std::size_t>(layout_.states));
  return pieces;
}

absl::StatusOr<Shard::Outcome> Shard::Sum(const Gradient& gradient) {
  if (gradient.step < version_) return Outcome{.dropped = true};
  if (gradient.step > version_ || gradient.part < 0 || gradient.part >= layout_.parts) {
    return absl::FailedPreconditionError(
        fmt::format("found part {} of step {} while {} updates of {} parts are made", gradient.part,
                    gradient.step, version_, layout_.parts));
  }
  if (sum_.Has(gradient.part)) return Outcome{.dropped = true};
  sum_.Add(gradient.part, PiecesOf(gradient));
  return Outcome{.staleness = version_ - gradient.version};
}

absl::Status Shard::Commit(const Request& request) {
  if (IsCommitted(request)) return absl::OkStatus();
  if (request.version != version_ + 1 || sum_.added() != layout_.parts) {
    return absl::FailedPreconditionError(
        fmt::format("it has made {} updates and has {} of {} parts of the next, where {} updates "
                    "are expected",
                    version_, sum_.added(), layout_.parts, request.version));
  }
  if (!request.skip) updates_.Run([&] { ApplySum(request.scale); });
  Count(request.skip);
  sum_.Begin();
  return absl::OkStatus();
}

void Shard::ApplySum(float scale) {
  std::vector<const float*> gradients;
  const float* at = sum_.Floats();
  for (const FlatRange& range : layout_.ranges) {
    gradients.push_back(at);
    at += range.size();
  }
  memory_->Update([&] {
    Update(gradients, scale);
    for (std::int64_t i = 0; i < layout_.states; ++i) states()[i] += at[i];
  });
}

absl::Status Shard::CommitIfDue(const Request& request) {
  if (const auto lock = Reading(); CheckFence(request.fence).ok() && IsCommitted(request)) {
    return absl::OkStatus();
  }
  const auto lock = Writing();
  LOCKSTEP_RETURN_IF_ERROR(CheckFence(request.fence));
  return Commit(request);
}

absl::StatusOr<std::int64_t> Shard::Pull(const Request& request, const Reader& read) {
  LOCKSTEP_RETURN_IF_ERROR(CommitIfDue(request));
  const auto lock = Reading();
  LOCKSTEP_RETURN_IF_ERROR(CheckFence(request.fence));
  const std::int64_t slots = request.slots ? layout_.values() * slots_ : 0;
  const std::int64_t floats = layout_.values() + layout_.states + slots;
  pulled_bytes_ += BytesOf(floats);
  read({values(), static_cast<std::size_t>(floats)});
  return version_;
}

absl::StatusOr<Shard::Place> Shard::Locate(const Request& request) {
  LOCKSTEP_RETURN_IF_ERROR(CommitIfDue(request));
  const auto lock = Reading();
  LOCKSTEP_RETURN_IF_ERROR(CheckFence(request.fence));
  Place place{.version = version_,
              .memory = memory_->locator(),
              .floats = layout_.values() * (1 + slots_) + layout_.states,
              .sequence = memory_->sequence()};
  if (!place.memory.empty()) pulled_bytes_ += BytesOf(layout_.values() + layout_.states);
  return place;
}

ShardCounts Shard::counts() const {
  const std::shared_lock lock(mutex_);
  ShardCounts counts = counts_;
  counts.version = version_;
  counts.pulled_bytes = pulled_bytes_;
  return counts;
}

}  // namespace lockstep::train
