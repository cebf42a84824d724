// A data file that is mapped into memory.
//
// If the file is cut short while it is mapped, or a page of it cannot be read, an access raises
// SIGBUS: there is no call that could return an error. This process then writes a log record that
// names the file, and ends with exit code 210, so that it is restarted. If the file is still
// damaged then, opening it reports that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

namespace lockstep::train {

struct Mapping;  // an entry of the table that the handler of SIGBUS reads

class MappedFile {
 public:
  // Returns null on failure, with errno set. Requires: size > 0. The first call installs the
  // handler of SIGBUS, which leaves faults elsewhere to the handler before it. Thread-safe.
  static std::unique_ptr<MappedFile> Map(int fd, std::size_t size, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  // Says whether the file is now read here and there, so that to read ahead is a waste.
  void ExpectScatteredReads(bool scattered) const;
  // Reads the whole file into the kernel's cache, from its beginning to its end, on a thread. Does
  // nothing, and logs that, if the file is larger than half of MemoryLimit(), because its
  // end would evict its beginning. Does not block. At most once.
  void Prefetch();

 private:
  MappedFile(std::span<const std::uint8_t> bytes, Mapping& mapping, std::string path)
      : bytes_(bytes), mapping_(mapping), path_(std::move(path)) {}

  const std::span<const std::uint8_t> bytes_;
  Mapping& mapping_;
  const std::string path_;
  std::stop_source reader_;  // stops the thread of Prefetch
  bool was_asked_ = false;   // Prefetch has been called
};

}  // namespace lockstep::train
