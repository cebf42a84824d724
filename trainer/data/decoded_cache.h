// Keeps decoded samples in memory.
#pragma once

#include <memory>

#include "trainer/data/dataset.h"

namespace lockstep::train {

// The most bytes of samples that a replica keeps for one data set.
inline constexpr std::int64_t kMaxCachedSamples = std::int64_t{256} << 20;

// Returns a data set that decodes each sample of `source` at most once for each thread that asks
// for it before it is kept, and copies it from then on. Returns `source` itself if its samples
// exceed kMaxCachedSamples or it is in memory already. Errors are not kept. Memory is used as
// samples are read.
std::unique_ptr<Dataset> CacheDecoded(std::unique_ptr<Dataset> source);

}  // namespace lockstep::train
