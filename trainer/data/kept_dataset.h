// The base of what keeps the decoded samples of another data set.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Has the samples of `source`. Only where they are read from differs.
class KeptDataset : public Dataset {
 public:
  // Requires: `source` outlives this.
  explicit KeptDataset(const Dataset& source) : kept_(source) {}

  std::int64_t size() const final { return kept_.size(); }
  const Shape& sample_shape() const final { return kept_.sample_shape(); }
  DType element() const final { return kept_.element(); }
  std::int64_t classes() const final { return kept_.classes(); }
  // The cache in memory has them all only after the first epoch.
  bool InMemory() const final { return false; }
  std::string PlaceOf(std::int64_t index) const final { return kept_.PlaceOf(index); }
  std::int64_t files() const final { return kept_.files(); }
  std::int64_t FileOf(std::int64_t index) const final { return kept_.FileOf(index); }
  absl::StatusOr<std::int32_t> LabelOf(std::int64_t index) const final {
    return kept_.LabelOf(index);
  }
  absl::StatusOr<std::uint64_t> DigestOf(std::int64_t index, std::uint64_t before) const final {
    return kept_.DigestOf(index, before);
  }

 private:
  const Dataset& kept_;
};

}  // namespace lockstep::train
