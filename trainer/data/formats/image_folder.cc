#include "trainer/data/formats/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"
#include "trainer/data/decode_image.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder.h"
#include "trainer/data/resize.h"

namespace lockstep::train {
namespace {

struct ImageFile {
  std::int32_t label = 0;
  std::string name;  // in its class's folder
};

// A file that is being replaced lacks some or all of its bytes for a moment, so one that cannot be
// decoded is read again after a second; it is damaged if its bytes are still the same. Unavailable:
// they differed each time. `has_damage`: an image is known to be damaged, so the job ends anyway
// and there is nothing to wait for.
absl::Status ReadImage(const std::string& path, const ImageForm& form,
                       std::atomic<bool>& has_damage, std::span<std::uint8_t> sample) {
  constexpr int kMostReads = 5;
  constexpr std::chrono::seconds kBetweenReads{1};
  FileBytes before;
  absl::Status decoded;
  for (int reads = 1; reads <= kMostReads; ++reads) {
    LOCKSTEP_ASSIGN_OR_RETURN(FileBytes file, FileBytes::ReadSmall(path));
    decoded = form.Decode(file.bytes(), sample);
    if (decoded.ok()) return decoded;
    const bool is_same = reads > 1 && std::ranges::equal(file.bytes(), before.bytes());
    if (!absl::IsDataLoss(decoded) || is_same || has_damage) {
      if (absl::IsDataLoss(decoded)) has_damage = true;
      return {decoded.code(), fmt::format("{}: {}", path, std::string(decoded.message()))};
    }
    before = std::move(file);
    if (reads < kMostReads) std::this_thread::sleep_for(kBetweenReads);
  }
  return absl::UnavailableError(fmt::format("{}: its content changes while it is read: {}", path,
                                            std::string(decoded.message())));
}

class ImageFolder final : public DecodedSource {
 public:
  ImageFolder(std::string folder, std::vector<std::string> classes, std::vector<ImageFile> files,
              ImageForm form)
      : folder_(std::move(folder)),
        classes_(std::move(classes)),
        files_(std::move(files)),
        form_(form),
        shape_(form.shape()) {}

  std::int64_t size() const override { return std::ssize(files_); }
  const Shape& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return std::ssize(classes_); }
  bool InMemory() const override { return false; }
  std::string PlaceOf(std::int64_t index) const override { return Path(index); }
  std::int64_t files() const override { return size(); }
  std::int64_t FileOf(std::int64_t index) const override { return index; }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    LOCKSTEP_RETURN_IF_ERROR(ReadImage(Path(index), form_, has_damage_, sample));
    return File(index).label;
  }

  absl::StatusOr<std::int32_t> LabelOf(std::int64_t index) const override {
    return File(index).label;
  }

  absl::StatusOr<std::uint64_t> DigestOf(std::int64_t index, std::uint64_t before) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::ReadSmall(Path(index)));
    return form_.Digest(file.bytes(), File(index).label, before);
  }

  std::uint64_t SourceDigest() const override {
    std::uint64_t digest = Digest(fmt::format("imageFolder;{};{}", form_.Text(), folder_));
    for (const ImageFile& image : files_) {
      digest = Digest(fmt::format("\n{};{}/{}", image.label,
                                  classes_[static_cast<std::size_t>(image.label)], image.name),
                      digest);
    }
    return digest;
  }

  absl::StatusOr<std::uint64_t> StampOf(std::int64_t index) const override {
    return StampOfFile(Path(index));
  }

 private:
  const ImageFile& File(std::int64_t index) const {
    LOCKSTEP_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    return files_[static_cast<std::size_t>(index)];
  }

  std::string Path(std::int64_t index) const {
    const ImageFile& image = File(index);
    return fmt::format("{}/{}/{}", folder_, classes_[static_cast<std::size_t>(image.label)],
                       image.name);
  }

  const std::string folder_;
  const std::vector<std::string> classes_;
  const std::vector<ImageFile> files_;
  const ImageForm form_;
  const Shape shape_;
  mutable std::atomic<bool> has_damage_ = false;
};

// The name's ending in lower case, ".jpg" say.
std::string EndingOf(const std::string& name) {
  std::string ending = std::filesystem::path(name).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

// True if the file is to be read, false if it is to be ignored.
absl::StatusOr<bool> IsImage(const std::string& path) {
  static constexpr std::array<std::string_view, 3> kRead = {".jpg", ".jpeg", ".png"};
  static constexpr std::array<std::string_view, 6> kRefused = {".gif", ".bmp",  ".webp",
                                                               ".tif", ".tiff", ".avif"};
  const std::string ending = EndingOf(path);
  if (std::ranges::find(kRead, ending) != kRead.end()) return true;
  if (std::ranges::find(kRefused, ending) == kRefused.end()) return false;
  return absl::DataLossError(
      fmt::format("{}: found an image of the format {}, expected JPEG or PNG", path, ending));
}

absl::Status AddImages(const std::string& folder, std::int32_t label,
                       std::vector<ImageFile>& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, ListFolder(folder));
  for (const FolderEntry& entry : entries) {
    const std::string path = folder + "/" + entry.name;
    if (entry.is_folder) {
      return absl::DataLossError(
          fmt::format("{}: found a folder, expected the images of one class", path));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const bool is_image, IsImage(path));
    if (is_image) files.push_back({label, entry.name});
  }
  return absl::OkStatus();
}

// Expects at least `fewest` and at most `most` folders.
absl::StatusOr<std::vector<std::string>> ClassesIn(const std::string& folder, std::size_t fewest,
                                                   std::size_t most) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, ListFolder(folder));
  std::vector<std::string> classes;
  for (const FolderEntry& entry : entries) {
    if (entry.is_folder) classes.push_back(entry.name);
  }
  if (classes.size() >= fewest && classes.size() <= most) return classes;
  return absl::DataLossError(
      fmt::format("{}: found {} folders, expected {} to {}, one for each class", folder,
                  classes.size(), fewest, most));
}

// Returns the first of the folders that has folders in it: a folder "test" often has images without
// classes, beside a folder "val". Without such a folder, the first that exists, for the message.
absl::StatusOr<std::string> FindTestFolder(const std::string& root) {
  const std::vector<std::string> names = {"test", "validation", "val"};
  for (const std::string& name : names) {
    const absl::StatusOr<std::vector<FolderEntry>> entries = ListFolder(root + "/" + name);
    if (!entries.ok() && !absl::IsNotFound(entries.status())) return entries.status();
    if (entries.ok() && std::ranges::any_of(*entries, &FolderEntry::is_folder)) {
      return root + "/" + name;
    }
  }
  return FindDataFile(root, "folder of test images", names);
}

// Where the samples of a split are, and the folder whose folders name the classes.
struct SplitFolders {
  std::string samples, classes;
};

absl::StatusOr<SplitFolders> FindSplit(const std::string& root, Split split) {
  const std::string train = root + "/train";
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> found, FirstExisting({train}));
  const std::string classes = found ? train : root;
  if (split == Split::kTrain) return SplitFolders{classes, classes};
  absl::StatusOr<std::string> test =
      found ? FindTestFolder(root)
            : absl::NotFoundError(fmt::format(
                  "{}: no folder \"train\" found, so that all of it is the training set; expected "
                  "spec.training.dataset.validationFraction above 0, or folders \"train\" and "
                  "\"test\"",
                  root));
  if (!test.ok()) return test.status();
  return SplitFolders{*std::move(test), classes};
}

// The test set may lack a class, but not have one more.
absl::Status CheckClasses(const std::string& folder, const std::vector<std::string>& classes) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> own,
                            ClassesIn(folder, 1, kMaxLabel + 1));
  for (const std::string& name : own) {
    if (std::ranges::binary_search(classes, name)) continue;
    return absl::DataLossError(
        fmt::format("{}/{}: the training set has no such class, expected one of its {}", folder,
                    name, classes.size()));
  }
  return absl::OkStatus();
}

// Every folder in `folder` is a class to the next process that opens it. One whose name begins with
// a dot is not.
absl::Status ExpectNoCacheIn(const std::string& folder, const std::string& cache) {
  if (cache.empty()) return absl::OkStatus();
  std::error_code ignored;  // what cannot be resolved is compared as it is written
  const auto resolve = [&ignored](const std::filesystem::path& path) {
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, ignored);
    return resolved.empty() ? path.lexically_normal() : resolved;
  };
  const std::filesystem::path inside = resolve(cache).lexically_relative(resolve(folder));
  if (inside.empty() || inside.begin()->string().starts_with('.')) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("spec.training.dataset.cacheDirectory: found {}, which is among the folders of "
                  "the classes in {}, expected one elsewhere",
                  cache, folder));
}

}  // namespace

ImageForm ImageForm::Of(const api::DatasetSpec& spec) {
  LOCKSTEP_CHECK(spec.image_size.size() == 2, "imageSize has {} entries", spec.image_size.size());
  return {.channels = static_cast<std::size_t>(spec.image_channels),
          .height = static_cast<std::size_t>(spec.image_size[0]),
          .width = static_cast<std::size_t>(spec.image_size[1]),
          .interpolation = spec.interpolation};
}

Shape ImageForm::shape() const {
  return {static_cast<std::int64_t>(channels), static_cast<std::int64_t>(height),
          static_cast<std::int64_t>(width)};
}

absl::Status ImageForm::Decode(std::span<const std::uint8_t> file,
                               std::span<std::uint8_t> sample) const {
  thread_local Pixels image;  // its memory serves all images of a thread
  LOCKSTEP_RETURN_IF_ERROR(DecodeImage(file, static_cast<int>(channels), image));
  ResizeToPlanes(image, height, width, interpolation, sample);
  return absl::OkStatus();
}

std::uint64_t ImageForm::Digest(std::span<const std::uint8_t> file, std::int32_t label,
                                std::uint64_t before) const {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  return lockstep::Digest(fmt::format(";{};{};", Text(), label), lockstep::Digest(bytes, before));
}

std::string ImageForm::Text() const {
  return fmt::format("{};{}", shape().ToString(), static_cast<int>(interpolation));
}

absl::StatusOr<std::unique_ptr<DecodedSource>> OpenImageFolder(const api::DatasetSpec& spec,
                                                               Split split) {
  LOCKSTEP_ASSIGN_OR_RETURN(SplitFolders folders, FindSplit(spec.path, split));
  for (const std::string& folder : {folders.samples, folders.classes}) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectNoCacheIn(folder, spec.cache_directory));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<std::string> classes,
                            ClassesIn(folders.classes, 2, kMaxLabel + 1));
  if (folders.samples != folders.classes) {
    LOCKSTEP_RETURN_IF_ERROR(CheckClasses(folders.samples, classes));
  }
  std::vector<ImageFile> files;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const std::string folder = folders.samples + "/" + classes[label];
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> found, FirstExisting({folder}));
    if (!found) continue;
    const std::size_t before = files.size();
    LOCKSTEP_RETURN_IF_ERROR(AddImages(folder, static_cast<std::int32_t>(label), files));
    // A folder that is no class (lost+found, __MACOSX) would shift the labels of the others.
    if (split == Split::kTrain && files.size() == before) {
      return absl::DataLossError(fmt::format(
          "{}: found no images, expected those of one class (*.jpg, *.jpeg or *.png)", folder));
    }
  }
  if (files.empty()) {
    return absl::DataLossError(fmt::format(
        "{}: found no images in the folders of {} classes, expected files *.jpg, *.jpeg or *.png",
        folders.samples, classes.size()));
  }
  return std::make_unique<ImageFolder>(std::move(folders.samples), std::move(classes),
                                       std::move(files), ImageForm::Of(spec));
}

}  // namespace lockstep::train
