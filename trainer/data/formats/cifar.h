// Reads the binary version of CIFAR-10 and CIFAR-100: https://www.cs.toronto.edu/~kriz/cifar.html,
// "Binary version".
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Opens data_batch_1.bin to data_batch_5.bin and test_batch.bin (CIFAR-10) or train.bin and
// test.bin (CIFAR-100, whose fine labels it takes) in `folder`. The files are mapped, so opening
// does not read the pixels; Read checks the label. Samples are 3,32,32.
//
// With `cache`, a thread reads the files ahead, and InMemory() is CountsAsInMemory() of them;
// without, it is false. NotFound names the files looked for. DataLoss names the file, the offset,
// and what was found and expected, or says that the folder has the files of CIFAR-10 and CIFAR-100.
// Unavailable: as for DataFileError.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCifar(const std::string& folder, Split split,
                                                   bool cache);

}  // namespace lockstep::train
