#include "trainer/data/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/status.h"
#include "trainer/core/crc32c.h"
#include "trainer/data/kept_dataset.h"

namespace lockstep::train {
namespace {

// In each file's name. Increment it if the form of the files changes, or what decoding or
// resampling an image gives.
constexpr int kVersion = 1;

// A sample's place: this, and then its bytes.
struct SlotHeader {
  std::uint64_t stamp = 0;
  std::int64_t index = 0;
  std::int32_t label = 0;
  std::uint32_t checksum = 0;  // of all the rest; wrong in a hole of the file
};
static_assert(sizeof(SlotHeader) == 24);

std::uint32_t ChecksumOf(SlotHeader header, std::span<const std::uint8_t> sample) {
  header.checksum = 0;
  return ExtendCrc32c(Crc32c(std::as_bytes(std::span(&header, 1))), std::as_bytes(sample));
}

std::array<iovec, 2> PartsOf(SlotHeader& header, std::span<std::uint8_t> sample) {
  return {iovec{&header, sizeof header}, iovec{sample.data(), sample.size()}};
}

class DiskCache final : public KeptDataset {
 public:
  DiskCache(std::unique_ptr<DecodedSource> source, const std::string& folder)
      : KeptDataset(*source),
        source_(std::move(source)),
        folder_(folder),
        path_(fmt::format("{}/decoded-v{}-{:016x}.lockstep", folder, kVersion,
                          source_->SourceDigest())),
        stamps_(static_cast<std::size_t>(source_->size())) {
    Open(OpenOwnIfThere(path_, O_RDWR));
    if (fd_ >= 0 || (errno != EACCES && errno != EROFS)) return;
    // It may have all samples.
    write_error_ = errno;
    Open(OpenOwnIfThere(path_, O_RDONLY));
  }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    // Before the sample is read: a file that changes in between gets another stamp.
    LOCKSTEP_ASSIGN_OR_RETURN(const std::uint64_t stamp, KnownStamp(index));
    if (const auto label = Find(index, stamp, sample)) return *label;
    LOCKSTEP_ASSIGN_OR_RETURN(const std::int32_t label, source_->Read(index, sample));
    if (writes_) Keep({.stamp = stamp, .index = index, .label = label}, sample);
    return label;
  }

 private:
  absl::StatusOr<std::uint64_t> KnownStamp(std::int64_t index) const {
    std::atomic<std::uint64_t>& known = stamps_[static_cast<std::size_t>(index)];
    std::uint64_t stamp = known.load(std::memory_order_relaxed);
    if (stamp != 0) return stamp;
    LOCKSTEP_ASSIGN_OR_RETURN(stamp, source_->StampOf(index));
    known.store(stamp, std::memory_order_relaxed);
    return stamp;
  }

  off_t PlaceIn(std::int64_t index) const {
    return static_cast<off_t>(index) * static_cast<off_t>(sizeof(SlotHeader) + sample_bytes());
  }

  // The label of the sample, if the file has it.
  std::optional<std::int32_t> Find(std::int64_t index, std::uint64_t stamp,
                                   std::span<std::uint8_t> sample) const {
    const int fd = fd_.load(std::memory_order_acquire);
    if (fd < 0) return std::nullopt;
    SlotHeader found;
    const std::array<iovec, 2> parts = PartsOf(found, sample);
    const ssize_t got = ::preadv(fd, parts.data(), static_cast<int>(parts.size()), PlaceIn(index));
    if (got < 0 && errno != EINTR) StopWriting("read", errno);
    if (got != static_cast<ssize_t>(sizeof found + sample.size())) return std::nullopt;
    if (found.stamp != stamp || found.index != index) return std::nullopt;
    if (found.checksum != ChecksumOf(found, sample)) return std::nullopt;
    // Others may write in the folder. The job's own samples must not be blamed for it.
    if (found.label < 0 || found.label >= classes()) return std::nullopt;
    return found.label;
  }

  void Keep(SlotHeader header, std::span<std::uint8_t> sample) const {
    const int fd = FileToWrite();
    if (fd < 0) return;
    header.checksum = ChecksumOf(header, sample);
    const std::array<iovec, 2> parts = PartsOf(header, sample);
    const ssize_t done =
        ::pwritev(fd, parts.data(), static_cast<int>(parts.size()), PlaceIn(header.index));
    const auto all = static_cast<ssize_t>(sizeof header + sample.size());
    if (done == all || (done < 0 && errno == EINTR)) return;
    // A write that stops short has met the end of the disk.
    StopWriting("write", done < 0 ? errno : ENOSPC);
  }

  // -1: there is none.
  int FileToWrite() const {
    const int fd = fd_.load(std::memory_order_acquire);
    if (fd >= 0 && write_error_ == 0) return fd;
    const std::lock_guard lock(opening_);
    if (!writes_) return -1;
    if (write_error_ != 0) {
      StopWriting("write", write_error_);
      return -1;
    }
    if (fd_ >= 0) return fd_;
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    // If that fails, opening the file says more.
    Open(OpenOwn(path_, O_RDWR, 0666));
    if (fd_ < 0) StopWriting("create", errno);
    return fd_;
  }

  // Sets fd_, or leaves it at -1 with errno set. Others may write in the folder.
  void Open(Descriptor file) const {
    if (file.fd() < 0) return;
    file_ = std::move(file);
    fd_.store(file_.fd(), std::memory_order_release);
  }

  void StopWriting(const char* action, int error) const {
    if (!writes_.exchange(false)) return;
    LogWarning(
        "decoded samples are no longer kept on disk: those that are not there are decoded in each "
        "epoch",
        {{"file", path_},
         {"reason",
          fmt::format("cannot {} it: {}", action, std::generic_category().message(error))}});
  }

  const std::unique_ptr<DecodedSource> source_;
  const std::string folder_, path_;
  mutable std::vector<std::atomic<std::uint64_t>> stamps_;  // 0: not asked for yet
  mutable std::atomic<bool> writes_ = true;                 // false: it has failed
  int write_error_ = 0;                                     // why the file may only be read
  mutable std::mutex opening_;
  mutable Descriptor file_;           // set once
  mutable std::atomic<int> fd_ = -1;  // file_'s
};

}  // namespace

std::unique_ptr<Dataset> CacheOnDisk(std::unique_ptr<DecodedSource> source,
                                     const std::string& folder) {
  return std::make_unique<DiskCache>(std::move(source), folder);
}

std::size_t BytesOfStamps(std::int64_t samples) {
  return static_cast<std::size_t>(samples) * sizeof(std::atomic<std::uint64_t>);
}

}  // namespace lockstep::train
