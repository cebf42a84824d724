// A piece of memory that other processes of this host can map. It is a memfd, reached through
// /proc/<pid>/fd/<n>, so it has no name in any file system and is gone with its last process,
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
  // What a peer needs to open the segment. The token, random and also kept in the segment's first
  // page, proves that pid and fd still mean what they meant.
  struct Locator {
    pid_t pid = 0;
    int fd = -1;
    std::string token;
    std::string ToString() const;  // "pid:fd:token"
    static absl::StatusOr<Locator> Parse(const std::string& text);
  };

  // Zeroed and with its space reserved, so that touching it cannot fail (SIGBUS) later.
  // ResourceExhausted: no room; Unimplemented: no memfd here.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(std::size_t bytes);
  // Maps a peer's segment, which must be of exactly `bytes`. NotFound: no such process or segment,
  // or it is out of this process's sight; FailedPrecondition: another size or token.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Attach(const Locator& locator,
                                                               std::size_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }  // aligned to a page
  std::size_t size() const { return size_; }
  const Locator& locator() const { return locator_; }

  // Copies the content into a new segment and maps that one at this one's address. Who has the old
  // one mapped keeps the old one. On failure nothing has changed.
  absl::Status Replace();

 private:
  SharedSegment() = default;
  absl::Status Allocate(std::size_t bytes);
  absl::Status Map(void* at);

  int fd_ = -1;                // kept open by the creator only
  std::byte* base_ = nullptr;  // the page with the token
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Locator locator_;
};

}  // namespace lockstep::train
