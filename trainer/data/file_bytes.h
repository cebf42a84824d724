// A file's content: memory-mapped, or inflated if the file is gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/mapped_file.h"

namespace lockstep::train {

// The error of a system call on a data file. NotFound: there is no such file. Unavailable:
// `error` may pass and says nothing about the file's content, such as EIO or ESTALE of a network
// volume, or a lack of memory. DataLoss: any other, such as EACCES or ELOOP.
absl::Status DataFileError(int error, const char* action, const std::string& path);

// Returns a digest of the file's path, its size and the time of its last modification: another one
// once the file has changed. Errors: those of DataFileError.
absl::StatusOr<std::uint64_t> StampOfFile(const std::string& path);

// Immutable and movable. A mapped file that is cut short later ends this process: see MappedFile.
class FileBytes {
 public:
  // Detects gzip by the file's first two bytes, not by its name. `size_of` gets the first
  // `header_bytes` (fewer if the file is shorter) and returns the expected size of the content; at
  // most one byte beyond that is inflated. DataLoss: damaged gzip data, or not a regular file.
  // Other errors are those of DataFileError and of `size_of`.
  using SizeOf = absl::StatusOr<std::uint64_t> (*)(std::span<const std::uint8_t> header,
                                                   const std::string& path);
  static absl::StatusOr<FileBytes> Open(const std::string& path, std::size_t header_bytes,
                                        SizeOf size_of);

  // For formats whose files do not announce their size. `is_plain` is for formats whose files may
  // begin with any bytes: it gets the first kHead bytes (fewer if the file is shorter) of a file
  // that begins like gzip, and returns true if the file is not gzip. Errors: as for Open; also
  // DataLoss if gzip data inflate to more than kMaxInflated bytes.
  static constexpr std::uint64_t kMaxInflated = std::uint64_t{4} << 30;
  static constexpr std::size_t kHead = 16;
  using IsPlain = bool (*)(std::span<const std::uint8_t> head);
  static absl::StatusOr<FileBytes> OpenWhole(const std::string& path, IsPlain is_plain = nullptr);

  // Opens the first `most` bytes of the content (fewer if there are no more). Errors: OpenWhole's.
  static absl::StatusOr<FileBytes> OpenHead(const std::string& path, std::size_t most);

  // Reads the file as it is, gzip or not. For small files, which are not worth a mapping. Errors:
  // those of DataFileError; DataLoss if it is not a regular file or has more than kMaxSmall bytes;
  // Unavailable if it was cut short meanwhile.
  static constexpr std::uint64_t kMaxSmall = std::uint64_t{256} << 20;
  static absl::StatusOr<FileBytes> ReadSmall(const std::string& path);

  FileBytes() = default;  // no bytes
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() = default;

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  // These do what MappedFile's do if the file is mapped, else nothing.
  void ExpectScatteredReads(bool scattered) const {
    if (mapping_ != nullptr) mapping_->ExpectScatteredReads(scattered);
  }
  void Prefetch() const {
    if (mapping_ != nullptr) mapping_->Prefetch();
  }

 private:
  struct Opened;
  static absl::StatusOr<Opened> OpenFile(const std::string& path);
  static absl::StatusOr<FileBytes> Map(int fd, std::size_t size, const std::string& path);
  static absl::StatusOr<FileBytes> Inflate(const Opened& opened, const std::string& path,
                                           std::size_t header_bytes, SizeOf size_of);

  std::unique_ptr<MappedFile> mapping_;
  std::vector<std::uint8_t> held_;  // what is not mapped
  std::span<const std::uint8_t> bytes_;
};

}  // namespace lockstep::train
