// Memory that other processes of this host can map. It is a memfd, opened through
// /proc/<pid>/fd/<n>, so it has no name in a file system and disappears with its last process,
// however that ends. Only processes of the same user and pid namespace can open it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Thread-compatible.
class SharedSegment {
 public:
  // What a peer needs to open the segment. The random token is also stored in the segment's first
  // page and proves that pid and fd still refer to the same segment.
  struct Locator {
    pid_t pid = 0;
    int fd = -1;
    std::string token;
    std::string ToString() const;  // "pid:fd:token"
    static absl::StatusOr<Locator> Parse(const std::string& text);
  };

  // Creates a zeroed segment and, unless `reserves` is false, reserves its space, so that access
  // cannot fail later. ResourceExhausted: not enough memory. Unimplemented: memfd_create fails.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(std::size_t bytes,
                                                               bool reserves = true);
  // Reserves the space, if that has not been done, without a change of the content.
  // ResourceExhausted: as for Create. Requires: this process created the segment.
  absl::Status Reserve();
  // Maps a peer's segment, which must have exactly `bytes`. NotFound: there is no such process or
  // segment, or this process cannot open it. FailedPrecondition: the size, the token or the seals
  // are not as expected. ResourceExhausted: it cannot be mapped.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Attach(const Locator& locator,
                                                               std::size_t bytes);
  // Maps a peer's segment read-only, with its data at `data` and its header in the
  // kHeaderBytes before that, replacing what is mapped there. The caller unmaps both. Errors: as
  // for Attach, and then nothing has changed; ResourceExhausted: it cannot be moved there (what was
  // mapped there may be gone: mremap with MREMAP_FIXED unmaps the target first). Requires: `data`
  // is page-aligned.
  static absl::Status AttachAt(const Locator& locator, std::size_t bytes, std::byte* data);
  static constexpr std::size_t kHeaderBytes = 4096;
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }  // page-aligned
  std::size_t size() const { return size_; }
  const Locator& locator() const { return locator_; }

  // Maps a new, zeroed segment at the same address; its space is reserved if the old segment's was.
  // Processes that have mapped the old segment keep their mapping, but its content is freed first,
  // so replacing needs no additional memory. On failure, address and locator stay the same, and
  // until another call succeeds the content is zero and its space is not reserved. Requires: this
  // process created the segment. Errors: as for Create.
  absl::Status Replace();

 private:
  SharedSegment() = default;
  absl::Status Allocate(std::size_t bytes, bool reserves);
  absl::Status Map(void* at);

  int fd_ = -1;                // kept open by the creator only
  std::byte* base_ = nullptr;  // the page with the token
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool is_reserved_ = false;
  Locator locator_;
};

}  // namespace lockstep::train
