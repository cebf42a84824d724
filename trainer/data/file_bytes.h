// The bytes of a file, mapped if it is plain and inflated if it is gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Immutable, movable.
class FileBytes {
 public:
  // gzip is known by its first two bytes, not by the name. `size_of` is given the first
  // `header_bytes` (fewer if the file is shorter) and says how long the content should be; of a
  // gzip file no more than one byte beyond that is inflated. NotFound; DataLoss: damaged gzip.
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
  // Asks the kernel to read the file ahead; returns at once.
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
