// The buffer into which cpprestsdk writes a streamed response body.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "operator/kube/rest/write_only_buffer.h"

namespace lockstep::kube {

// Hands each piece that the library has read to one reader, in place, and lets the library read on
// when the reader is done with it. So nothing is copied, and at most one piece is in memory however
// slow the reader is; the library's own producer-consumer buffer is unbounded, and a chunk of a
// watch can have 9 MB. Thread-safe: one reader calls Next and Abandon, any thread calls End. Create
// with std::make_shared.
class HandoverBuffer final : public WriteOnlyBuffer {
 public:
  // Blocks. Returns the next piece, valid until the next call; empty after the end.
  std::string_view Next();
  // Marks the end of the body.
  void End();
  // The reader will not call again: discards all further pieces.
  void Abandon();

 protected:
  pplx::task<std::size_t> _putn(const std::uint8_t* piece, std::size_t size) override;

 private:
  // Lets the library continue, if it is waiting.
  void Release(std::unique_lock<std::mutex> lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::string_view piece_;  // empty: none
  bool is_read_ = false;    // the reader has piece_
  bool ended_ = false, abandoned_ = false;
  // Completed when piece_ has been read.
  std::optional<pplx::task_completion_event<std::size_t>> taken_;
};

}  // namespace lockstep::kube
