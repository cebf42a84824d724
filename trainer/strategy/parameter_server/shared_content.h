// A shard's floats, in memory that processes of the same host can map: then a pull is one copy,
// which the process that pulls makes.
//
// A reader must not see half of an update. A counter is odd while an update is under way, and a
// reader discards its copy if the counter has changed since before the copy: a sequence lock
// (Boehm, "Can seqlocks get along with programming language memory models?", 2012).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/comm/shm/shared_segment.h"
#include "trainer/core/arena.h"

namespace lockstep::train {

// Updates exclude each other and the writer's own reads by other means; Read is thread-safe.
class SharedContent {
 public:
  // Returns zeroed floats, in shared memory if the host has it, else in private memory.
  // ResourceExhausted: there is not enough memory.
  static absl::StatusOr<std::unique_ptr<SharedContent>> Create(std::int64_t floats);
  // Maps another process's. Errors: as for SharedSegment::Attach.
  static absl::StatusOr<std::unique_ptr<SharedContent>> Attach(const std::string& locator,
                                                               std::int64_t floats);

  float* data() const { return data_; }  // aligned to kArenaAlignment
  std::int64_t size() const { return size_; }
  std::string locator() const;  // for Attach; empty: private

  // Changes the floats, by the process that has created them.
  void Update(const std::function<void()>& change);
  std::uint64_t sequence() const;  // the counter
  // Calls `copy`, which reads the floats. Returns false if an update was under way when the counter
  // was `sequence`, or has begun since: what was read may be of two versions.
  bool Read(std::uint64_t sequence, const std::function<void()>& copy) const;

 private:
  explicit SharedContent(std::int64_t size) : size_(size) {}
  void Use(std::byte* memory);

  const std::int64_t size_;  // floats
  std::unique_ptr<SharedSegment> segment_;
  Arena private_;  // without a segment
  std::atomic<std::uint64_t>* sequence_ = nullptr;
  float* data_ = nullptr;
};

// As SharedContent::Create.
using MakeContent =
    std::function<absl::StatusOr<std::unique_ptr<SharedContent>>(std::int64_t floats)>;

}  // namespace lockstep::train
