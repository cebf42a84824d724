// A device in the manner of a GPU, for tests: what works on it needs no host memory and no
// synchronous device. Ops run on a thread behind a queue, and reading device memory from outside of
// this folder is a segmentation fault.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Runs `host`'s ops. Requires: host->IsHost().
std::unique_ptr<Backend> MakeAsyncReferenceBackend(std::unique_ptr<Backend> host);

}  // namespace lockstep::train
