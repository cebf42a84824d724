// Reads pairs of NumPy arrays: samples and their labels.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Opens x_train.npy and y_train.npy, or x_test.npy and y_test.npy, in `folder`. The files are
// mapped, so opening does not read the samples.
//
// x: uint8 or float32. [N,H,W] gives samples of 1,H,W; [N,C,H,W], or [N,H,W,C] with
// spec.channels_last, gives C,H,W; any other rank of at least 2 is kept, such as [N,F].
// y: integers of any size, [N] or [N,1]; classes() is one more than the largest. With
// LabelKind::kNumbers: integers or float32, [N] or [N,T], of which targets() is 1 or T.
//
// With `cache`, a thread reads x ahead, and InMemory() is CountsAsInMemory() of it; without, it is
// false. NotFound names the files looked for. DataLoss names the file, the offset, and what was
// found and expected. Unavailable: as for DataFileError.
absl::StatusOr<std::unique_ptr<Dataset>> OpenNpy(const std::string& folder,
                                                 const api::NpySpec& spec, Split split, bool cache,
                                                 LabelKind labels = LabelKind::kClasses);

}  // namespace lockstep::train
