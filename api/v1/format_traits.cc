#include "api/v1/format_traits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "api/v1/enum_names.h"
#include "base/check.h"

namespace lockstep::api {
namespace {

std::optional<std::vector<std::int64_t>> DecodedShape(const DatasetSpec& dataset) {
  if (dataset.image_size.size() != 2) return std::nullopt;
  return std::vector<std::int64_t>{dataset.image_channels, dataset.image_size[0],
                                   dataset.image_size[1]};
}

FormatTraits TfRecordRow(const DatasetSpec& dataset) {
  const TfRecordSpec records = dataset.tfrecord.value_or(TfRecordSpec{});
  FormatTraits row{.decodes_images = records.shape.empty(),
                   .decodes_images_if = "without a shape",
                   .extents = records.shape.size(),
                   .has_settings = dataset.tfrecord.has_value(),
                   .train_files = {"*.tfrecord*"},
                   .train_files_text = "*.tfrecord*"};
  if (row.decodes_images) row.sample_shape = DecodedShape(dataset);
  if (records.classes > 0) row.classes = records.classes;
  return row;
}

FormatTraits SyntheticRow(const DatasetSpec& dataset) {
  const SyntheticSpec synthetic = dataset.synthetic.value_or(SyntheticSpec{});
  return {.is_generated = true,
          .labels = FormatLabels::kClassOrShare,
          .files = FormatFiles::kNone,
          .sample_shape = synthetic.shape,
          .classes = synthetic.classes,
          .has_settings = dataset.synthetic.has_value()};
}

std::string Joined(std::vector<std::string> names, std::string_view before_last) {
  std::ranges::sort(names);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? before_last : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

// The table. Without a default case: the compiler reports a format that has no row.
FormatTraits TraitsOf(const DatasetSpec& dataset) {
  switch (dataset.format) {
    case DatasetFormat::kIdx:
      return {.files = FormatFiles::kOne,
              .train_files = {"train-images-idx3-ubyte*", "train-images.idx3-ubyte*"},
              .train_files_text = "train-images-idx3-ubyte[.gz]"};
    case DatasetFormat::kCifar:
      return {.sample_shape = std::vector<std::int64_t>{3, 32, 32},
              .train_files = {"data_batch_1.bin", "train.bin"},
              .train_files_text = "data_batch_1.bin, train.bin"};
    case DatasetFormat::kNpy:
      return {.labels = FormatLabels::kNumbers,
              .files = FormatFiles::kOne,
              .has_settings = dataset.npy.has_value(),
              .train_files = {"x_train.npy"},
              .train_files_text = "x_train.npy"};
    case DatasetFormat::kCsv:
      return {.may_be_images = false,
              .labels = FormatLabels::kNumber,
              .files = FormatFiles::kOne,
              .has_settings = dataset.csv.has_value(),
              .train_files = {"train.csv", "train.csv.gz"},
              .train_files_text = "train.csv[.gz]"};
    case DatasetFormat::kTfRecord:
      return TfRecordRow(dataset);
    case DatasetFormat::kImageFolder:
      return {.decodes_images = true,
              .files = FormatFiles::kEach,
              .sample_shape = DecodedShape(dataset),
              .train_files = {"train/"},
              .train_files_text = "a folder `train` with a folder of images for each class"};
    case DatasetFormat::kSynthetic:
      return SyntheticRow(dataset);
  }
  LOCKSTEP_CHECK(false, "dataset: {} is not a format", static_cast<int>(dataset.format));
}

FormatTraits TraitsOf(DatasetFormat format) {
  return TraitsOf({.format = format});
}

bool MayHaveNumbers(const FormatTraits& traits) {
  return traits.labels != FormatLabels::kClass;
}

bool MayHaveFiles(const FormatTraits& traits) {
  return traits.files == FormatFiles::kSeveral || traits.files == FormatFiles::kEach;
}

std::string NamesOfFormats(bool (*has)(const FormatTraits& traits), std::string_view before_last) {
  std::vector<std::string> names;
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    if (has(TraitsOf(format))) names.emplace_back(name);
  }
  return Joined(std::move(names), before_last);
}

std::string FormatsThatDecodeImages() {
  std::vector<std::string> names;
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    const FormatTraits traits = TraitsOf(format);
    if (!traits.decodes_images) continue;
    const std::string_view condition = traits.decodes_images_if;
    names.push_back(condition.empty() ? std::string(name) : fmt::format("{} {}", name, condition));
  }
  return Joined(std::move(names), ", or with ");
}

}  // namespace lockstep::api
