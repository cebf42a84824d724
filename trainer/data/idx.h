// MNIST's file format: http://yann.lecun.com/exdb/mnist/, "THE IDX FILE FORMAT".
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Reads {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte in `folder`; also with a
// dot (train-images.idx3-ubyte), with .gz, and "test" for "t10k". Plain files are mapped, so
// opening costs no read of the pixels. Samples are 1,H,W.
//
// There are 10 classes; labels above 9 add more if every class up to the greatest label has two
// training samples or more (EMNIST's 26 letters, say), else the label is reported as out of range.
// The classes of the test set are those of the training set, if that is there.
//
// `in_memory`: what InMemory() says; false reads ahead by a thread, for files on slow volumes.
//
// NotFound names the files looked for; DataLoss names file, offset, found and expected values.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdx(const std::string& folder, Split split,
                                                 bool in_memory);

}  // namespace lockstep::train
