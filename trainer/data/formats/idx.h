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
// The number of classes is one more than the largest training label, but at least 10 (2 with
// LabelKind::kTwoClasses). If the training labels are present, the test set has the same classes,
// and a label beyond them is DataLoss.
//
// With `cache`, a thread reads the images ahead, and InMemory() is CountsAsInMemory() of their
// bytes. Without it, InMemory() is false, so a loader reads ahead on its own thread.
//
// NotFound names the files looked for. DataLoss names the file, the offset, and what was found and
// expected. Unavailable: as for DataFileError.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdx(const std::string& folder, Split split, bool cache,
                                                 LabelKind labels = LabelKind::kClasses);

}  // namespace lockstep::train
