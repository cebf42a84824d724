#include "trainer/data/formats/tfrecord.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "trainer/core/crc32c.h"
#include "trainer/data/channels_first.h"
#include "trainer/data/check_finite.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder.h"
#include "trainer/data/formats/image_folder.h"
#include "trainer/data/formats/tf_example.h"

namespace lockstep::train {
namespace {

using RecordBytes = std::span<const std::uint8_t>;

// A record: length (8 bytes), its checksum (4), the data, their checksum (4); little-endian.
constexpr std::size_t kRecordHeader = 12, kRecordFooter = 4;

// Files that are read at once when a set is opened: each waits for its volume most of the time.
constexpr std::size_t kAtOnce = 16;

template <class T>
T LittleEndian(RecordBytes bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(bytes[offset + i]) << (8 * i));
  }
  return value;
}

std::uint32_t MaskedCrc(RecordBytes data) {
  const std::uint32_t crc = Crc32c(std::as_bytes(data));
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

absl::Status RecordFault(const std::string& path, std::uint64_t offset, const std::string& what) {
  return absl::DataLossError(fmt::format("{}: record at offset {}: {}", path, offset, what));
}

absl::Status CheckRecordCrc(std::uint32_t found, RecordBytes data, const char* of_what,
                            const std::string& path, std::uint64_t offset) {
  const std::uint32_t expected = MaskedCrc(data);
  if (found == expected) return absl::OkStatus();
  return RecordFault(
      path, offset,
      fmt::format("checksum of its {} is 0x{:08x}, expected 0x{:08x}", of_what, found, expected));
}

struct RecordFile {
  std::string path;
  FileBytes file;
  std::uint64_t stamp = 0;             // see StampOfFile; from before it was opened
  std::vector<std::uint64_t> records;  // as FindRecords
};

struct RecordPlace {
  std::size_t file = 0;
  std::uint64_t offset = 0;  // of the data
};

// Everything that the records of both splits have in common.
struct RecordForm {
  std::string feature, label;
  std::optional<ImageForm> image;  // encoded
  Shape shape;                     // of a sample
  DType element = DType::kUInt8;
};

class TfRecordDataset final : public DecodedSource {
 public:
  TfRecordDataset(std::vector<RecordFile> files, std::vector<RecordPlace> places, RecordForm form)
      : files_(std::move(files)), places_(std::move(places)), form_(std::move(form)) {}

  std::int64_t size() const override { return std::ssize(places_); }
  const Shape& sample_shape() const override { return form_.shape; }
  DType element() const override { return form_.element; }
  std::int64_t classes() const override { return classes_; }
  bool InMemory() const override { return false; }  // checksums take time
  std::int64_t files() const override { return std::ssize(files_); }
  std::int64_t FileOf(std::int64_t index) const override {
    return static_cast<std::int64_t>(places_[static_cast<std::size_t>(index)].file);
  }
  std::string PlaceOf(std::int64_t index) const override {
    const RecordPlace& place = places_[static_cast<std::size_t>(index)];
    return fmt::format("{}: record at offset {}", files_[place.file].path,
                       place.offset - kRecordHeader);
  }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(const RecordBytes record, Record(index));
    LOCKSTEP_ASSIGN_OR_RETURN(const TfFeature feature, Feature(index, record, form_.feature));
    if (absl::Status read = ReadSample(feature, sample); !read.ok()) {
      const absl::Status fault = Fault(
          index, fmt::format("feature \"{}\": {}", form_.feature, std::string(read.message())));
      return absl::Status(read.code(), fault.message());
    }
    return Label(index, record);
  }

  absl::StatusOr<std::int32_t> LabelOf(std::int64_t index) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(const RecordBytes record, Record(index));
    return Label(index, record);
  }

  absl::StatusOr<std::uint64_t> DigestOf(std::int64_t index, std::uint64_t before) const override {
    if (!form_.image) return Dataset::DigestOf(index, before);
    LOCKSTEP_ASSIGN_OR_RETURN(const RecordBytes record, Record(index));
    LOCKSTEP_ASSIGN_OR_RETURN(const TfFeature feature, Feature(index, record, form_.feature));
    const std::optional<RecordBytes> image = OnlyBytes(feature);
    if (!image) {
      return Fault(index,
                   fmt::format("feature \"{}\": expected one value of bytes", form_.feature));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::int32_t label, Label(index, record));
    return form_.image->Digest(*image, label, before);
  }

  std::uint64_t SourceDigest() const override {
    const std::string form =
        form_.image ? form_.image->Text() : fmt::format("raw {}", form_.shape.ToString());
    std::uint64_t digest =
        Digest(fmt::format("tfrecord;{};{};{};{}", form, form_.feature, form_.label, size()));
    for (const RecordFile& file : files_) digest = Digest("\n" + file.path, digest);
    return digest;
  }

  absl::StatusOr<std::uint64_t> StampOf(std::int64_t index) const override {
    const RecordPlace& place = places_[static_cast<std::size_t>(index)];
    return Digest(fmt::format(";{}", place.offset), files_[place.file].stamp);
  }

  // Takes the kind of the samples from the first record.
  absl::Status DetectElement() {
    LOCKSTEP_ASSIGN_OR_RETURN(const RecordBytes record, Record(0));
    LOCKSTEP_ASSIGN_OR_RETURN(const TfFeature feature, Feature(0, record, form_.feature));
    if (form_.image || feature.kind != TfFeature::Kind::kFloats) {
      if (!form_.image && form_.shape.rank() == 3) {  // H,W,C
        form_.shape = Shape{form_.shape[2], form_.shape[0], form_.shape[1]};
      }
      return absl::OkStatus();
    }
    form_.element = DType::kFloat32;
    return absl::OkStatus();
  }

  // Sets the number of classes; if it is 0, reads every label to find it.
  absl::Status SetClasses(std::int64_t classes, ThreadPool& pool) {
    classes_ = classes > 0 ? classes : kMaxLabel + 1;
    if (classes > 0) return absl::OkStatus();
    std::vector<std::int32_t> largest(files_.size());
    const auto read_labels = [&](std::size_t file) -> absl::Status {
      const auto of_file = std::ranges::equal_range(places_, file, {}, &RecordPlace::file);
      for (const RecordPlace& place : of_file) {
        const std::int64_t index = &place - places_.data();
        LOCKSTEP_ASSIGN_OR_RETURN(const std::int32_t label, LabelOf(index));
        largest[file] = std::max(largest[file], label);
      }
      return absl::OkStatus();
    };
    LOCKSTEP_RETURN_IF_ERROR(pool.ForEach(files_.size(), kAtOnce, read_labels));
    classes_ = *std::ranges::max_element(largest) + 1;
    return absl::OkStatus();
  }

 private:
  absl::Status Fault(std::int64_t index, const std::string& what) const {
    return absl::DataLossError(fmt::format("{}: {}", PlaceOf(index), what));
  }

  absl::StatusOr<RecordBytes> Record(std::int64_t index) const {
    LOCKSTEP_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    const RecordPlace& place = places_[static_cast<std::size_t>(index)];
    const RecordFile& file = files_[place.file];
    return RecordAt(file.file.bytes(), place.offset, file.path);
  }

  absl::StatusOr<TfFeature> Feature(std::int64_t index, RecordBytes record,
                                    const std::string& name) const {
    const absl::StatusOr<std::optional<TfFeature>> found = FindTfFeature(record, name);
    if (!found.ok()) return Fault(index, std::string(found.status().message()));
    if (found->has_value()) return **found;
    return Fault(index, fmt::format("found no feature \"{}\"", name));
  }

  absl::StatusOr<std::int32_t> Label(std::int64_t index, RecordBytes record) const {
    LOCKSTEP_ASSIGN_OR_RETURN(const TfFeature feature, Feature(index, record, form_.label));
    const std::optional<std::int64_t> label = OnlyInteger(feature);
    if (label && *label >= 0 && *label < classes_) return static_cast<std::int32_t>(*label);
    return Fault(index,
                 fmt::format("label \"{}\" is {}, expected one integer from 0 to {}", form_.label,
                             label ? std::to_string(*label) : "none", classes_ - 1));
  }

  absl::Status ReadSample(const TfFeature& feature, std::span<std::uint8_t> sample) const {
    if (form_.element == DType::kFloat32) {
      const std::optional<std::size_t> floats = CopyFloats(feature, sample);
      if (floats && *floats * sizeof(float) == sample.size()) return CheckFinite(sample);
      return absl::DataLossError(fmt::format("found {} floats, expected {}",
                                             floats ? std::to_string(*floats) : "no list of",
                                             form_.shape.elements()));
    }
    const std::optional<RecordBytes> bytes = OnlyBytes(feature);
    if (!bytes) return absl::DataLossError("expected one value of bytes");
    if (form_.image) return form_.image->Decode(*bytes, sample);
    if (bytes->size() != sample.size()) {
      return absl::DataLossError(fmt::format("found {} bytes, expected {}, those of tfrecord.shape",
                                             bytes->size(), sample.size()));
    }
    if (form_.shape.rank() == 3) {
      ToChannelsFirst(*bytes, form_.shape, 1, sample);
    } else {
      std::memcpy(sample.data(), bytes->data(), sample.size());
    }
    return absl::OkStatus();
  }

  const std::vector<RecordFile> files_;
  const std::vector<RecordPlace> places_;
  RecordForm form_;
  std::int64_t classes_ = 0;
};

bool Matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// One pattern for both splits is on purpose. Otherwise a test sample that was trained on, in a file
// "latest-train-0" say, would go unnoticed.
absl::Status CheckSplit(const std::string& path, const std::string& name,
                        const api::TfRecordSpec& spec) {
  if (spec.train_files == spec.test_files || !Matches(spec.train_files, name) ||
      !Matches(spec.test_files, name)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: found a file that matches both spec.training.dataset.tfrecord.trainFiles "
                  "\"{}\" and testFiles \"{}\", expected it in one of the splits",
                  path, spec.train_files, spec.test_files));
}

// A plain file begins with the length of its first record, which may look like gzip.
bool BeginsWithALength(RecordBytes head) {
  return head.size() >= kRecordHeader &&
         LittleEndian<std::uint32_t>(head, 8) == MaskedCrc(head.first(8));
}

absl::StatusOr<std::vector<RecordFile>> OpenMatching(const std::string& folder,
                                                     const api::TfRecordSpec& spec,
                                                     const std::string& pattern) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, ListFolder(folder));
  std::vector<RecordFile> files;
  for (const FolderEntry& entry : entries) {
    if (entry.is_folder || !Matches(pattern, entry.name)) continue;
    const std::string path = folder + "/" + entry.name;
    LOCKSTEP_RETURN_IF_ERROR(CheckSplit(path, entry.name, spec));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::uint64_t stamp, StampOfFile(path));
    LOCKSTEP_ASSIGN_OR_RETURN(FileBytes file, FileBytes::OpenWhole(path, BeginsWithALength));
    files.push_back({.path = path, .file = std::move(file), .stamp = stamp});
  }
  if (!files.empty()) return files;
  return absl::NotFoundError(
      fmt::format("{}: no file matches \"{}\" among {} entries, expected TFRecord files", folder,
                  pattern, entries.size()));
}

// Around each header, the kernel reads ahead 128 KiB. If records have at least about half of that,
// reading only the pages of their headers is faster; if they are smaller, reading everything is.
constexpr std::uint64_t kLargeRecord = 64 << 10;

// With `only_headers`, nothing but the records' headers is read while the file is opened.
absl::Status ListRecords(bool only_headers, RecordFile& file) {
  const RecordBytes bytes = file.file.bytes();
  const bool is_scattered = only_headers && bytes.size() >= kRecordHeader &&
                            LittleEndian<std::uint64_t>(bytes, 0) >= kLargeRecord;
  if (is_scattered) file.file.ExpectScatteredReads(true);
  LOCKSTEP_ASSIGN_OR_RETURN(file.records, FindRecords(bytes, file.path));
  if (is_scattered) file.file.ExpectScatteredReads(false);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::uint64_t>> FindRecords(std::span<const std::uint8_t> file,
                                                       const std::string& path) {
  std::vector<std::uint64_t> offsets;
  std::size_t at = 0;
  while (at < file.size()) {
    const std::size_t left = file.size() - at;
    if (left < kRecordHeader + kRecordFooter) {
      return RecordFault(path, at,
                         fmt::format("cut short: found {} bytes, expected at least {}", left,
                                     kRecordHeader + kRecordFooter));
    }
    const RecordBytes header = file.subspan(at, kRecordHeader);
    LOCKSTEP_RETURN_IF_ERROR(CheckRecordCrc(LittleEndian<std::uint32_t>(header, 8), header.first(8),
                                            "length", path, at));
    const auto length = LittleEndian<std::uint64_t>(header, 0);
    if (length > left - kRecordHeader - kRecordFooter) {
      return RecordFault(path, at,
                         fmt::format("cut short: found {} bytes of data, expected {}",
                                     left - kRecordHeader - kRecordFooter, length));
    }
    offsets.push_back(at + kRecordHeader);
    at += kRecordHeader + static_cast<std::size_t>(length) + kRecordFooter;
  }
  return offsets;
}

absl::StatusOr<std::span<const std::uint8_t>> RecordAt(std::span<const std::uint8_t> file,
                                                       std::uint64_t offset,
                                                       const std::string& path) {
  const std::size_t begin = static_cast<std::size_t>(offset) - kRecordHeader;
  const auto length = static_cast<std::size_t>(LittleEndian<std::uint64_t>(file, begin));
  // The file has been rewritten since its records were found: it may be whole in a moment.
  if (length > file.size() - kRecordFooter - static_cast<std::size_t>(offset)) {
    return absl::UnavailableError(
        fmt::format("{}: record at offset {}: found a length of {}, which the file had not before",
                    path, begin, length));
  }
  const RecordBytes data = file.subspan(static_cast<std::size_t>(offset), length);
  LOCKSTEP_RETURN_IF_ERROR(CheckRecordCrc(LittleEndian<std::uint32_t>(file, offset + length), data,
                                          "data", path, begin));
  return data;
}

absl::StatusOr<std::unique_ptr<DecodedSource>> OpenTfRecord(const api::DatasetSpec& spec,
                                                            Split split) {
  const api::TfRecordSpec records = spec.tfrecord.value_or(api::TfRecordSpec{});
  const std::string& pattern = split == Split::kTrain ? records.train_files : records.test_files;
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<RecordFile> files,
                            OpenMatching(spec.path, records, pattern));
  ThreadPool pool(kAtOnce - 1);
  LOCKSTEP_RETURN_IF_ERROR(pool.ForEach(files.size(), kAtOnce, [&](std::size_t i) {
    return ListRecords(records.classes > 0, files[i]);
  }));
  std::vector<RecordPlace> places;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const std::uint64_t offset : std::exchange(files[i].records, {})) {
      places.push_back({i, offset});
    }
  }
  if (places.empty()) {
    return absl::DataLossError(fmt::format("{}: found no records in the {} files that match \"{}\"",
                                           spec.path, files.size(), pattern));
  }
  RecordForm form{
      .feature = records.feature, .label = records.label, .shape = Shape(records.shape)};
  if (records.shape.empty()) {
    form.image = ImageForm::Of(spec);
    form.shape = form.image->shape();
  }
  auto dataset =
      std::make_unique<TfRecordDataset>(std::move(files), std::move(places), std::move(form));
  LOCKSTEP_RETURN_IF_ERROR(dataset->DetectElement());
  LOCKSTEP_RETURN_IF_ERROR(dataset->SetClasses(records.classes, pool));
  return dataset;
}

}  // namespace lockstep::train
