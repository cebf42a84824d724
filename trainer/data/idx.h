// Reads MNIST's file format: http://yann.lecun.com/exdb/mnist/, "THE IDX FILE FORMAT".
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Opens {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte in `folder`. Also accepts
// a dot (train-images.idx3-ubyte), the suffix .gz, and "test" for "t10k". Plain files are mapped,
// so opening does not read the pixels. Samples are 1,H,W.
//
// There are as many classes as the largest training label says, and 10 at least (2 with
// LabelKind::kTwoClasses). The test set has the classes of the training set, if that is present; a
// label beyond is an error.
//
// With `cache`, a thread reads the images ahead, and InMemory() is CountsAsInMemory() of them;
// without, it is false, so that a loader reads ahead on a thread.
//
// NotFound names the files looked for. DataLoss names the file, offset, found and expected values.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdx(const std::string& folder, Split split, bool cache,
                                                 LabelKind labels = LabelKind::kClasses);

}  // namespace lockstep::train
