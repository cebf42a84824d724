#include "trainer/data/formats/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder.h"
#include "trainer/data/memory_cache.h"

namespace lockstep::train {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kImageHeader = 16, kLabelHeader = 8;
constexpr std::uint32_t kImageMagic = 0x803, kLabelMagic = 0x801;
constexpr int kUsualClasses = 10;  // even if a set lacks the last digits

std::uint32_t BigEndian32(Bytes bytes, std::size_t offset) {
  return (std::uint32_t{bytes[offset]} << 24) | (std::uint32_t{bytes[offset + 1]} << 16) |
         (std::uint32_t{bytes[offset + 2]} << 8) | std::uint32_t{bytes[offset + 3]};
}

// Checks a header, which must have at least `length` bytes. Returns the file's expected size.
absl::StatusOr<std::uint64_t> CheckHeader(Bytes header, std::size_t length, std::uint32_t magic,
                                          const std::string& path) {
  if (header.size() < length) {
    return absl::DataLossError(
        fmt::format("{}: found {} bytes, expected an IDX header of {} bytes at offset 0", path,
                    header.size(), length));
  }
  if (const std::uint32_t found = BigEndian32(header, 0); found != magic) {
    return absl::DataLossError(fmt::format(
        "{}: magic number at offset 0 is 0x{:08x}, expected 0x{:08x} (unsigned bytes, {})", path,
        found, magic, magic == kImageMagic ? "3 dimensions: images" : "1 dimension: labels"));
  }
  static constexpr std::array kDimensions = {"count", "height", "width"};
  std::uint64_t elements = 1;
  for (std::size_t offset = 4; offset < length; offset += 4) {
    const std::uint32_t extent = BigEndian32(header, offset);
    if (extent == 0 || __builtin_mul_overflow(elements, std::uint64_t{extent}, &elements) ||
        elements > (std::uint64_t{1} << 48)) {
      return absl::DataLossError(fmt::format(
          "{}: {} at offset {} is {}, expected at least 1 and no more than 2^48 bytes in all", path,
          kDimensions[offset / 4 - 1], offset, extent));
    }
  }
  return elements + length;
}

absl::StatusOr<std::uint64_t> ImageFileSize(Bytes header, const std::string& path) {
  return CheckHeader(header, kImageHeader, kImageMagic, path);
}

absl::StatusOr<std::uint64_t> LabelFileSize(Bytes header, const std::string& path) {
  return CheckHeader(header, kLabelHeader, kLabelMagic, path);
}

std::vector<std::string> CandidatePaths(const std::string& folder, Split split,
                                        const std::string& kind) {
  std::vector<std::string> paths;
  const std::vector<std::string> prefixes = split == Split::kTrain
                                                ? std::vector<std::string>{"train"}
                                                : std::vector<std::string>{"t10k", "test"};
  for (const std::string& prefix : prefixes) {
    for (const char* separator : {"-", "."}) {
      for (const char* suffix : {"", ".gz"}) {
        paths.push_back(fmt::format("{}/{}-{}{}{}-ubyte{}", folder, prefix, kind, separator,
                                    kind == "images" ? "idx3" : "idx1", suffix));
      }
    }
  }
  return paths;
}

absl::StatusOr<std::optional<std::string>> FindFile(const std::string& folder, Split split,
                                                    const std::string& kind) {
  return FirstExisting(CandidatePaths(folder, split, kind));
}

struct IdxFile {
  std::string path;
  FileBytes file;
  std::vector<std::uint8_t> header;  // as it was checked: whoever can write the file may change it
};

absl::StatusOr<IdxFile> OpenFile(const std::string& folder, Split split, const std::string& kind) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> path, FindFile(folder, split, kind));
  if (!path) {
    return absl::NotFoundError(fmt::format("{}: no {} {} found, expected one of: {}", folder,
                                           split == Split::kTrain ? "training" : "test", kind,
                                           fmt::join(CandidatePaths(folder, split, kind), ", ")));
  }
  const bool images = kind == "images";
  const std::size_t header = images ? kImageHeader : kLabelHeader;
  const FileBytes::SizeOf size_of = images ? ImageFileSize : LabelFileSize;
  LOCKSTEP_ASSIGN_OR_RETURN(FileBytes file, FileBytes::Open(*path, header, size_of));
  const Bytes begin = file.bytes().first(header);
  std::vector<std::uint8_t> checked(begin.begin(), begin.end());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::uint64_t expected, size_of(checked, *path));
  if (file.bytes().size() != expected) {
    // At most one surplus byte of a gzip file was inflated.
    return absl::DataLossError(
        fmt::format("{}: {}: found {} bytes, expected {} ({} samples by its header)", *path,
                    file.bytes().size() < expected ? "cut short" : "bytes after the end",
                    file.bytes().size(), expected, BigEndian32(checked, 4)));
  }
  return IdxFile{*path, std::move(file), std::move(checked)};
}

// DataLoss names the first sample whose label is not below `classes`.
absl::Status CheckLabels(Bytes labels, int classes, const std::string& path) {
  const auto bad = std::find_if(labels.begin(), labels.end(),
                                [&](std::uint8_t label) { return label >= classes; });
  if (bad == labels.end()) return absl::OkStatus();
  const auto sample = static_cast<std::size_t>(bad - labels.begin());
  return absl::DataLossError(
      fmt::format("{}: label of sample {} at offset {} is {}, expected 0 to {}", path, sample,
                  sample + kLabelHeader, *bad, classes - 1));
}

// A largest label that occurs only once may be damaged; it would then be the reason for too many
// classes.
void WarnOfLonelyLabel(Bytes labels, int label, const std::string& path) {
  if (label < kUsualClasses || std::ranges::count(labels, label) != 1) return;
  const auto sample = std::ranges::find(labels, label) - labels.begin();
  LogWarning("the largest label occurs once: if it is damaged, there are fewer classes",
             {{"file", path},
              {"sample", sample},
              {"offset", sample + static_cast<std::ptrdiff_t>(kLabelHeader)},
              {"label", label}});
}

int CountClasses(Bytes labels, LabelKind kind, const std::string& path) {
  const int largest = *std::ranges::max_element(labels);
  WarnOfLonelyLabel(labels, largest, path);
  return std::max(kind == LabelKind::kTwoClasses ? 2 : kUsualClasses, largest + 1);
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxFile images, IdxFile labels, int classes, bool cache)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        size_(BigEndian32(images_.header, 4)),
        shape_({1, BigEndian32(images_.header, 8), BigEndian32(images_.header, 12)}),
        classes_(classes),
        in_memory_(cache && CountsAsInMemory(images_.file.bytes().size() - kImageHeader)) {
    if (cache) images_.file.Prefetch();
  }

  std::int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  bool InMemory() const override { return in_memory_; }
  std::string PlaceOf(std::int64_t index) const override {
    return fmt::format("{}: sample {}", labels_.path, index);
  }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> pixels) const override {
    const auto sample_bytes = static_cast<std::size_t>(shape_.elements());
    LOCKSTEP_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    LOCKSTEP_CHECK(pixels.size() == sample_bytes, "room for {} bytes, a sample has {}",
                   pixels.size(), sample_bytes);
    const auto sample = static_cast<std::size_t>(index);
    std::memcpy(pixels.data(), images_.file.bytes().data() + kImageHeader + sample * sample_bytes,
                sample_bytes);
    return labels_.file.bytes()[kLabelHeader + sample];
  }

 private:
  const IdxFile images_, labels_;
  const std::int64_t size_;
  const Shape shape_;
  const int classes_;
  const bool in_memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenIdx(const std::string& folder, Split split, bool cache,
                                                 LabelKind kind) {
  LOCKSTEP_ASSIGN_OR_RETURN(IdxFile images, OpenFile(folder, split, "images"));
  LOCKSTEP_ASSIGN_OR_RETURN(IdxFile labels, OpenFile(folder, split, "labels"));
  const std::uint32_t image_count = BigEndian32(images.header, 4);
  const std::uint32_t label_count = BigEndian32(labels.header, 4);
  if (image_count != label_count) {
    return absl::DataLossError(
        fmt::format("{}: count at offset 4 is {}, expected {}, the count of images in {}",
                    labels.path, label_count, image_count, images.path));
  }
  const Bytes own_labels = labels.file.bytes().subspan(kLabelHeader);
  std::optional<std::string> train_labels;
  if (split == Split::kTest) {
    LOCKSTEP_ASSIGN_OR_RETURN(train_labels, FindFile(folder, Split::kTrain, "labels"));
  }
  int classes = 0;
  if (train_labels) {
    LOCKSTEP_ASSIGN_OR_RETURN(const IdxFile train, OpenFile(folder, Split::kTrain, "labels"));
    classes = CountClasses(train.file.bytes().subspan(kLabelHeader), kind, train.path);
  } else {
    classes = CountClasses(own_labels, kind, labels.path);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckLabels(own_labels, classes, labels.path));
  return std::make_unique<IdxDataset>(std::move(images), std::move(labels), classes, cache);
}

}  // namespace lockstep::train
