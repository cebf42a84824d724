// What tells data sets apart.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Returns a digest of up to 256 samples, evenly spread, the first and the last among them: equal
// for equal samples, wherever they are stored and whatever processor reads them. Digests at most 64
// MiB, but at least two samples. So it costs no more than to read a batch, and two sets that differ
// in few samples may have the same. Checkpoints store the digest: if the algorithm changes, old
// checkpoints seem to be of other data. Times of files say less: each copy of a data set has its
// own. Errors: those of Dataset::Read.
absl::StatusOr<std::uint64_t> DigestOfSamples(const Dataset& data);

// Returns a text that identifies `data`: its sizes and DigestOfSamples. Errors: as for
// DigestOfSamples.
absl::StatusOr<std::string> IdentityOf(const Dataset& data);

}  // namespace lockstep::train
