// A data set that may decode its samples, and knows what they are decoded from, so that they can be
// kept on disk.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

class DecodedSource : public Dataset {
 public:
  // Returns a digest of what tells which samples the set has and how they are decoded and labelled:
  // its files' names, but not their content.
  virtual std::uint64_t SourceDigest() const = 0;
  // Returns a number that another one replaces when the file of sample `index` changes; made of its
  // path, its size and the time of its last modification. Requires: 0 <= index < size(). Errors: as
  // Read.
  virtual absl::StatusOr<std::uint64_t> StampOf(std::int64_t index) const = 0;
};

}  // namespace lockstep::train
