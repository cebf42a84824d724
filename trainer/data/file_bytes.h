// A file's content: memory-mapped, or inflated if the file is gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Immutable and movable.
class FileBytes {
 public:
  // Detects gzip by the file's first two bytes, not by its name. `size_of` gets the first
  // `header_bytes` (fewer if the file is shorter) and returns the expected size of the content; at
  // most one byte beyond that is inflated. NotFound: there is no such file. PermissionDenied: it
  // cannot be opened. DataLoss: damaged gzip data or any other fault. Passes on `size_of`'s error.
  using SizeOf = absl::StatusOr<std::uint64_t> (*)(std::span<const std::uint8_t> header,
                                                   const std::string& path);
  static absl::StatusOr<FileBytes> Open(const std::string& path, std::size_t header_bytes,
                                        SizeOf size_of);

  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes();

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  // Asks the kernel to read ahead a mapped file. Does not block.
  void Prefetch() const;

 private:
  FileBytes() = default;
  static absl::StatusOr<FileBytes> Map(int fd, std::size_t size, const std::string& path);
  static absl::StatusOr<FileBytes> Inflate(const std::string& path, std::uint64_t file_size,
                                           std::size_t header_bytes, SizeOf size_of);

  void* mapping_ = nullptr;
  std::vector<std::uint8_t> inflated_;
  std::span<const std::uint8_t> bytes_;
};

}  // namespace lockstep::train
