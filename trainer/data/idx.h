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
// There are 10 classes. Labels 10 and above add classes as long as each has at least two samples
// (EMNIST's 26 letters, for example); any label beyond is an error. The test set has the classes of
// the training set, if that is present.
//
// `in_memory` is the result of InMemory(); if false, a loader reads ahead on a thread, for files on
// slow volumes.
//
// NotFound names the files looked for. DataLoss names the file, offset, found and expected values.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdx(const std::string& folder, Split split,
                                                 bool in_memory);

}  // namespace lockstep::train
