#include "trainer/data/formats/cifar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder.h"
#include "trainer/data/memory_cache.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kImageBytes = 3 * 32 * 32;

// What distinguishes CIFAR-10 from CIFAR-100. A record is its labels and then its pixels, plane by
// plane; the last label counts (CIFAR-100's first one is the superclass).
struct CifarKind {
  std::vector<std::string> train, test;
  std::size_t label_bytes = 1;
  std::int64_t classes = 10;

  const std::vector<std::string>& names(Split split) const {
    return split == Split::kTrain ? train : test;
  }
  std::size_t record_bytes() const { return label_bytes + kImageBytes; }
};

CifarKind Cifar10() {
  return {.train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                    "data_batch_5.bin"},
          .test = {"test_batch.bin"}};
}

CifarKind Cifar100() {
  return {.train = {"train.bin"}, .test = {"test.bin"}, .label_bytes = 2, .classes = 100};
}

struct CifarFile {
  std::string path;
  FileBytes file;
  std::int64_t first = 0;  // index of its first sample
};

class CifarDataset final : public Dataset {
 public:
  CifarDataset(CifarKind kind, std::vector<CifarFile> files, std::int64_t size, bool cache)
      : kind_(std::move(kind)),
        files_(std::move(files)),
        size_(size),
        in_memory_(cache && CountsAsInMemory(static_cast<std::uint64_t>(size) * kImageBytes)) {
    if (!cache) return;
    for (const CifarFile& file : files_) file.file.Prefetch();
  }

  std::int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return kind_.classes; }
  bool InMemory() const override { return in_memory_; }
  std::int64_t files() const override { return std::ssize(files_); }
  std::int64_t FileOf(std::int64_t index) const override {
    return &Find(index).file - files_.data();
  }

  std::string PlaceOf(std::int64_t index) const override {
    const auto& [file, offset] = Find(index);
    return fmt::format("{}: record at offset {}", file.path, offset);
  }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    LOCKSTEP_CHECK(sample.size() == kImageBytes, "room for {} bytes, a sample has {}",
                   sample.size(), kImageBytes);
    const auto& [file, offset] = Find(index);
    const std::uint8_t* record = file.file.bytes().data() + offset;
    const std::uint8_t label = record[kind_.label_bytes - 1];
    if (label >= kind_.classes) {
      return absl::DataLossError(fmt::format("{}: label at offset {} is {}, expected 0 to {}",
                                             file.path, offset + kind_.label_bytes - 1, label,
                                             kind_.classes - 1));
    }
    std::memcpy(sample.data(), record + kind_.label_bytes, kImageBytes);
    return label;
  }

 private:
  struct CifarRecord {
    const CifarFile& file;
    std::size_t offset;
  };
  CifarRecord Find(std::int64_t index) const {
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    const auto after = std::ranges::upper_bound(files_, index, {}, &CifarFile::first);
    const CifarFile& file = *(after - 1);
    return {file, static_cast<std::size_t>(index - file.first) * kind_.record_bytes()};
  }

  const CifarKind kind_;
  const std::vector<CifarFile> files_;
  const std::int64_t size_;
  const bool in_memory_;
  const Shape shape_{3, 32, 32};
};

// NotFound: the folder has the files of neither.
absl::StatusOr<CifarKind> DetectKind(const std::string& folder, Split split) {
  const CifarKind ten = Cifar10(), hundred = Cifar100();
  const auto first_of = [&](const CifarKind& kind) {
    return FirstExisting({folder + "/" + kind.names(split).front()});
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> of_ten, first_of(ten));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> of_hundred, first_of(hundred));
  if (of_ten && of_hundred) {
    return absl::DataLossError(
        fmt::format("{}: found {} and {}, expected the files of either "
                    "CIFAR-10 or CIFAR-100",
                    folder, *of_ten, *of_hundred));
  }
  if (of_ten || of_hundred) return of_ten ? ten : hundred;
  return absl::NotFoundError(
      fmt::format("{}: no {} images found, expected {} (CIFAR-10) or {} (CIFAR-100)", folder,
                  split == Split::kTrain ? "training" : "test", fmt::join(ten.names(split), ", "),
                  fmt::join(hundred.names(split), ", ")));
}

absl::Status CheckSize(const FileBytes& file, std::size_t record, const std::string& path) {
  const std::size_t size = file.bytes().size();
  if (size > 0 && size % record == 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: found {} bytes, expected a positive multiple of {}, a label and an image of "
                  "3x32x32",
                  path, size, record));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenCifar(const std::string& folder, Split split,
                                                   bool cache) {
  LOCKSTEP_ASSIGN_OR_RETURN(CifarKind kind, DetectKind(folder, split));
  std::vector<CifarFile> files;
  std::int64_t size = 0;
  for (const std::string& name : kind.names(split)) {
    const std::string path = folder + "/" + name;
    LOCKSTEP_ASSIGN_OR_RETURN(FileBytes file, FileBytes::OpenWhole(path));
    LOCKSTEP_RETURN_IF_ERROR(CheckSize(file, kind.record_bytes(), path));
    const std::size_t records = file.bytes().size() / kind.record_bytes();
    files.push_back({path, std::move(file), size});
    size += static_cast<std::int64_t>(records);
  }
  return std::make_unique<CifarDataset>(std::move(kind), std::move(files), size, cache);
}

}  // namespace lockstep::train
