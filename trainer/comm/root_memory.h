// Memory that rank 0 writes and the other ranks of its host read in place: one copy for all.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "trainer/core/memory_source.h"

namespace lockstep::train {

class SharedSegment;

// Gives out one block of host memory. Rank 0's can be mapped by others, if there is memory to
// share. Another rank's is its own until Map() puts rank 0's in its place, at the same address;
// then it is read-only. Not thread-safe. Outlives the communicators that share it.
class RootMemory final : public MemorySource {
 public:
  explicit RootMemory(bool is_root);
  ~RootMemory() override;

  // Requires: called once.
  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* memory, std::size_t bytes) override;

  // Rank 0's, for Map() on other ranks; empty: it cannot be shared.
  std::string locator() const;
  // Replaces this rank's block by that of rank 0, whose size must be the same. Errors as of
  // SharedSegment::Attach; then this rank's is as before. Requires: not rank 0.
  absl::Status Map(const std::string& locator);
  // All ranks have mapped it.
  void Confirm() { is_shared_ = true; }
  // Ends the sharing. Unmaps rank 0's block, if it is mapped here; this rank then has a block of
  // its own, of zeros.
  void Withdraw();
  // True from Confirm() to Withdraw(). A barrier must then order the writes of rank 0 with the
  // others' reads.
  bool is_shared() const { return is_shared_; }

 private:
  void MapOwn(void* at);

  const bool is_root_;
  bool is_shared_ = false;
  std::unique_ptr<SharedSegment> segment_;  // rank 0's; null: its block is private
  std::byte* block_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_mapped_ = false;  // another rank's block is that of rank 0
};

}  // namespace lockstep::train
