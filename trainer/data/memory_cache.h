// Keeps decoded samples in memory, for later epochs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "trainer/data/dataset.h"

namespace lockstep::train {

// The most bytes of samples, decoded or mapped, that a replica keeps for one data set.
inline constexpr std::int64_t kMostCachedBytes = std::int64_t{256} << 20;

// Returns a data set that decodes each sample of `source` when it is first read, keeps it, and
// copies it from then on. Threads that read it at the same time may each decode it. Returns
// `source` itself if its samples exceed kMostCachedBytes or it is in memory already. Errors are
// not kept. Memory is used as samples are read.
std::unique_ptr<Dataset> CacheInMemory(std::unique_ptr<Dataset> source);

// Returns true if mapped samples of this size count as in memory while they are still being read
// ahead: a step waits only briefly for those that are missing. Larger sets may never be in memory
// as a whole.
bool CountsAsInMemory(std::uint64_t sample_bytes);

// The bytes of what it keeps of so many samples, with their labels; 0 if they are too many.
std::size_t BytesOfDecoded(std::int64_t samples, std::size_t sample_bytes);

}  // namespace lockstep::train
