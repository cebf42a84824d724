#include "trainer/data/shards.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "base/check.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

// Apart from the streams that order the epochs. Replica r's is kOwnStream + r.
constexpr std::uint64_t kRestStream = 0x5265, kOwnStream = 0x5368'0000;

// The first of a step's `count` positions that `replica` of `world` reads, as in RankSlice.
std::int64_t FirstOf(std::int64_t count, int replica, int world) {
  return count * replica / world;
}

std::int64_t ShareOf(std::int64_t count, int replica, int world) {
  return FirstOf(count, replica + 1, world) - FirstOf(count, replica, world);
}

}  // namespace

SampleGroups SampleGroups::FilesOf(const Dataset& data) {
  if (data.files() == 1) return Copies(data.size(), 1);  // the samples of a plan may be billions
  std::vector<std::int64_t> sizes(Index(data.files()));
  bool is_in_order = true;
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const std::int64_t file = data.FileOf(i);
    ++sizes[Index(file)];
    is_in_order = is_in_order && file >= before;
    before = file;
  }
  SampleGroups groups;
  if (!is_in_order) {
    std::vector<std::int64_t> next(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), next.begin(), std::int64_t{0});
    groups.samples_.resize(Index(data.size()));
    for (std::int64_t i = 0; i < data.size(); ++i) {
      groups.samples_[Index(next[Index(data.FileOf(i))]++)] = i;
    }
  }
  std::erase(sizes, 0);
  groups.ends_.resize(sizes.size());
  std::inclusive_scan(sizes.begin(), sizes.end(), groups.ends_.begin());
  return groups;
}

SampleGroups SampleGroups::Copies(std::int64_t samples, int count) {
  SampleGroups groups;
  for (std::int64_t copy = 1; copy <= count; ++copy) groups.ends_.push_back(copy * samples);
  return groups;
}

std::int64_t SampleGroups::At(std::int64_t group, std::int64_t i) const {
  const std::int64_t place = begin(group) + i;
  return samples_.empty() ? place : samples_[Index(place)];
}

Shards::Shards(std::shared_ptr<const SampleGroups> groups, const StepPlan& plan)
    : groups_(std::move(groups)), plan_(plan), shards_(static_cast<std::size_t>(plan.world)) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(groups_->count()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::int64_t g) { return groups_->size(g); });
  using Load = std::pair<std::int64_t, std::size_t>;  // samples, replica
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (std::size_t replica = 0; replica < shards_.size(); ++replica) least.emplace(0, replica);
  for (const std::int64_t group : order) {
    Shard& shard = shards_[least.top().second];
    shard.groups.push_back(group);
    shard.size += groups_->size(group);
    shard.ends.push_back(shard.size);
    const Load now{shard.size, least.top().second};
    least.pop();
    least.push(now);
  }
  for (Shard& shard : shards_) {  // there may be as many groups as samples
    shard.groups.shrink_to_fit();
    shard.ends.shrink_to_fit();
  }
  const std::int64_t steps = plan_.StepsPerEpoch();
  std::int64_t all = 0, deficit = 0;
  for (int replica = 0; replica < plan_.world; ++replica) {
    Shard& shard = shards_[static_cast<std::size_t>(replica)];
    shard.quota = (steps - 1) * ShareOf(plan_.global_batch, replica, plan_.world) +
                  ShareOf(plan_.GlobalExamples(steps - 1), replica, plan_.world);
    shard.surplus_before = rest_;
    shard.deficit_before = deficit;
    rest_ += std::max<std::int64_t>(0, shard.size - shard.quota);
    deficit += std::max<std::int64_t>(0, shard.quota - shard.size);
    all += shard.size;
  }
  LOCKSTEP_CHECK(all == plan_.examples, "shards of {} samples for an epoch of {}", all,
                 plan_.examples);
}

std::size_t Shards::bytes() const {
  std::size_t bytes = 0;
  for (const Shard& shard : shards_) {
    bytes += (shard.groups.capacity() + shard.ends.capacity()) * sizeof(std::int64_t);
  }
  return bytes;
}

std::int64_t Shards::At(int replica, std::int64_t i) const {
  const Shard& shard = shards_[static_cast<std::size_t>(replica)];
  const auto end = std::ranges::upper_bound(shard.ends, i);
  const auto place = static_cast<std::size_t>(end - shard.ends.begin());
  return groups_->At(shard.groups[place], i - (place == 0 ? 0 : shard.ends[place - 1]));
}

Shards::Turn Shards::TurnAt(std::int64_t position) const {
  const std::int64_t step = position / plan_.global_batch;
  const std::int64_t offset = position % plan_.global_batch, count = plan_.GlobalExamples(step);
  // The first replica whose share ends behind `offset`.
  const auto replica = static_cast<int>(((offset + 1) * plan_.world - 1) / count);
  return {replica, step * ShareOf(plan_.global_batch, replica, plan_.world) + offset -
                       FirstOf(count, replica, plan_.world)};
}

std::int64_t Shards::RestNumber(const Turn& turn) const {
  const Shard& shard = shards_[static_cast<std::size_t>(turn.replica)];
  return shard.deficit_before + turn.turn - shard.size;
}

Shards::Turn Shards::RestAt(std::int64_t number) const {
  // The last replica before which there are at most so many; those without a surplus share their
  // number with the next one.
  const auto after = std::ranges::upper_bound(shards_, number, {}, &Shard::surplus_before);
  const auto shard = after - 1;
  return {static_cast<int>(shard - shards_.begin()), shard->quota + number - shard->surplus_before};
}

DealtBytes BytesOfDealt(std::int64_t files, std::int64_t samples, bool is_in_order) {
  constexpr std::int64_t kNumber = sizeof(std::int64_t);
  const std::int64_t listed = is_in_order || files == 1 ? 0 : samples;
  return {.groups = (files + listed) * kNumber, .shards = 2 * files * kNumber};
}

EpochOrder::EpochOrder(const Shards* shards, std::uint64_t seed, std::uint64_t epoch,
                       std::int64_t n, bool shuffle)
    : shards_(shards) {
  if (shards_ == nullptr) {
    all_.emplace(seed, epoch, n, shuffle);
    return;
  }
  LOCKSTEP_CHECK(shards_->samples() == n, "shards of {} samples for an epoch of {}",
                 shards_->samples(), n);
  own_.resize(static_cast<std::size_t>(shards_->replicas()));
  for (int replica = 0; replica < shards_->replicas(); ++replica) {
    if (shards_->size(replica) == 0) continue;
    const std::uint64_t stream = kOwnStream + static_cast<std::uint64_t>(replica);
    own_[static_cast<std::size_t>(replica)].emplace(DeriveKey(seed, stream), epoch,
                                                    shards_->size(replica), shuffle);
  }
  if (shards_->rest() > 0) {
    rest_.emplace(DeriveKey(seed, kRestStream), epoch, shards_->rest(), shuffle);
  }
}

std::int64_t EpochOrder::operator()(std::int64_t position) const {
  if (shards_ == nullptr) return (*all_)(position);
  LOCKSTEP_CHECK(position >= 0 && position < shards_->samples(), "position {} of {}", position,
                 shards_->samples());
  const Shards::Turn turn = shards_->TurnAt(position);
  if (turn.turn < shards_->size(turn.replica)) return Own(turn);
  return Own(shards_->RestAt((*rest_)(shards_->RestNumber(turn))));
}

std::int64_t EpochOrder::Own(const Shards::Turn& turn) const {
  const auto& order = own_[static_cast<std::size_t>(turn.replica)];
  return shards_->At(turn.replica, (*order)(turn.turn));
}

}  // namespace lockstep::train
