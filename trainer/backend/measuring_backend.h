// A back end that can say what a model would need without using it: its ops are another's, but
// its memory is counted and never touched.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Memory that is reserved in the address space alone, so that there may be more of it than the
// machine has. What reads it finds zeros; what writes it needs memory from then on. Not
// thread-safe.
class ReservedMemory final : public MemorySource {
 public:
  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* memory, std::size_t bytes) override;
  std::size_t bytes() const { return bytes_; }  // given out and not freed

 private:
  std::size_t bytes_ = 0;
};

// Makes the ops, losses and optimizers of `host`, with the shapes, layouts and sizes that they have
// there. What sets or copies memory does nothing, and what would look at its content (Download,
// ToDense, AllFinite) throws CheckFailure; the ops must not run. Requires: host->IsHost(), and
// `memory` outlives the back end.
std::unique_ptr<Backend> MakeMeasuringBackend(std::unique_ptr<Backend> host,
                                              ReservedMemory& memory);

}  // namespace lockstep::train
