#include "api/v1/validate_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1/enum_names.h"
#include "api/v1/format_traits.h"

namespace lockstep::api {
namespace {

// Requires what the decoder of images needs, and rejects what nothing would read.
void ValidateImages(const DatasetSpec& dataset, Section& section) {
  const DatasetSpec defaults;
  const bool decodes = TraitsOf(dataset).decodes_images;
  const auto only_with_images = [&](std::string_view field, bool is_set) {
    if (!is_set || decodes) return;
    section.Fault(fmt::format("dataset.{}", field),
                  fmt::format("found with format {}, expected only with {}", NameOf(dataset.format),
                              FormatsThatDecodeImages()));
  };
  only_with_images("imageSize", !dataset.image_size.empty());
  only_with_images("imageChannels", dataset.image_channels != defaults.image_channels);
  only_with_images("interpolation", dataset.interpolation != defaults.interpolation);
  only_with_images("cacheDirectory", !dataset.cache_directory.empty());
  if (decodes && dataset.image_size.size() != 2) {
    section.Fault("dataset.imageSize", fmt::format("found {} numbers, expected 2: height and width",
                                                   dataset.image_size.size()));
  }
  if (dataset.image_channels == 2) {
    section.Fault("dataset.imageChannels", "found 2, expected 1 (gray) or 3 (RGB)");
  }
}

// The height and width of the samples, where the job says them: other formats' are in the files.
std::optional<std::pair<std::int64_t, std::int64_t>> ImageSizeOf(const DatasetSpec& dataset) {
  const auto shape = TraitsOf(dataset).sample_shape;
  if (shape && shape->size() == 3) return std::pair{(*shape)[1], (*shape)[2]};
  if (dataset.image_size.size() == 2)
    return std::pair{dataset.image_size[0], dataset.image_size[1]};
  return std::nullopt;
}

// What is done to pixels needs images.
void NeedsImages(const DatasetSpec& dataset, std::string_view field, Section& section) {
  const FormatTraits traits = TraitsOf(dataset);
  if (!traits.may_be_images) {
    section.Fault(field, fmt::format("found with format {}, expected only with images",
                                     NameOf(dataset.format)));
  } else if (traits.extents != 0 && traits.extents != 3) {
    section.Fault(field, fmt::format("found with samples of {} extents, expected only with images, "
                                     "which have 3",
                                     traits.extents));
  }
}

void ValidateAugment(const DatasetSpec& dataset, Section& section) {
  if (!dataset.augment) return;
  NeedsImages(dataset, "dataset.augment", section);
  if (dataset.augment->mix_up && !dataset.shuffle) {
    section.Fault("dataset.augment.mixUp",
                  "found with shuffle false, expected true: a sample's partner is its neighbour in "
                  "the epoch's order");
  }
  const auto size = ImageSizeOf(dataset);
  if (!size) return;
  const auto [height, width] = *size;
  const std::int64_t side = std::min(height, width);
  if (dataset.augment->random_crop && dataset.augment->random_crop->padding >= side) {
    section.Fault("dataset.augment.randomCrop.padding",
                  fmt::format("found {} for images of {}x{} pixels, expected less than the shorter "
                              "side",
                              dataset.augment->random_crop->padding, height, width));
  }
  if (dataset.augment->cutout && dataset.augment->cutout->size > side) {
    section.Fault("dataset.augment.cutout.size",
                  fmt::format("found {} for images of {}x{} pixels, expected at most the shorter "
                              "side",
                              dataset.augment->cutout->size, height, width));
  }
}

// How many channels the images have is known once the files are open.
void ValidateNormalize(const DatasetSpec& dataset, Section& section) {
  if (!dataset.normalize) return;
  NeedsImages(dataset, "dataset.normalize", section);
  const std::size_t means = dataset.normalize->mean.size(),
                    deviations = dataset.normalize->std.size();
  if (means < 1 || means > 3) {
    section.Fault("dataset.normalize.mean",
                  fmt::format("found {} numbers, expected 1 to 3: one for each channel", means));
  }
  if (deviations == means) return;
  section.Fault(
      "dataset.normalize.std",
      fmt::format("found {} numbers, expected {}, as many as mean has", deviations, means));
}

// Bounds the product of the extents, each of which the schema bounds.
void ValidateTfRecord(const TfRecordSpec& tfrecord, Section& section) {
  const auto required = [&](std::string_view field, const std::string& value) {
    if (!value.empty()) return;
    section.Fault(fmt::format("dataset.tfrecord.{}", field), "found none, expected a name");
  };
  required("trainFiles", tfrecord.train_files);
  required("testFiles", tfrecord.test_files);
  required("feature", tfrecord.feature);
  required("label", tfrecord.label);
  constexpr std::int64_t kMostElements = std::int64_t{1} << 26;
  std::int64_t elements = 1;
  for (const std::int64_t extent : tfrecord.shape) {
    elements = extent > kMostElements / elements ? kMostElements + 1 : elements * extent;
    if (elements > kMostElements) break;
  }
  if (tfrecord.shape.size() > 8 || elements > kMostElements) {
    section.Fault("dataset.tfrecord.shape",
                  fmt::format("found {} extents, expected at most 8 and at most {} elements",
                              tfrecord.shape.size(), kMostElements));
  }
}

}  // namespace

void ValidateDataset(const DatasetSpec& dataset, Section& section) {
  section.Absolute("dataset.path", dataset.path);
  section.Absolute("dataset.cacheDirectory", dataset.cache_directory);
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    DatasetSpec other = dataset;
    other.format = format;
    if (dataset.format == format || !TraitsOf(other).has_settings) continue;
    section.Fault(fmt::format("dataset.{}", name),
                  fmt::format("found with format {}, expected only with format {}",
                              NameOf(dataset.format), name));
  }
  ValidateImages(dataset, section);
  if (dataset.tfrecord) ValidateTfRecord(*dataset.tfrecord, section);
  ValidateAugment(dataset, section);
  ValidateNormalize(dataset, section);
  if (dataset.csv && dataset.csv->label_column.empty()) {
    section.Fault("dataset.csv.labelColumn", "found none, expected a column's name");
  }
  if (!TraitsOf(dataset).is_generated) {
    if (dataset.path.empty()) {
      section.Fault("dataset.path", fmt::format("found none, expected the folder of the {} files",
                                                NameOf(dataset.format)));
    }
    return;
  }
  if (!dataset.path.empty()) {
    section.Fault("dataset.path", fmt::format("found with format {}, which reads no files",
                                              NameOf(dataset.format)));
  }
  if (dataset.auto_shard == AutoShard::kFile) {
    section.Fault(
        "dataset.autoShard",
        fmt::format("found File with format {}, which reads no files", NameOf(dataset.format)));
  }
  if (dataset.validation_fraction != 0) {
    section.Fault("dataset.validationFraction",
                  fmt::format("found with format {0}, expected testExamples in dataset.{0}",
                              NameOf(dataset.format)));
  }
  if (dataset.synthetic && dataset.synthetic->shape.size() != 3) {
    section.Fault("dataset.synthetic.shape",
                  fmt::format("found {} dimensions, expected 3: channels, height, width",
                              dataset.synthetic->shape.size()));
  }
}

}  // namespace lockstep::api
