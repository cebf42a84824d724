// What a format of data sets is, for those that must tell formats apart. They ask these traits,
// never the format: then a new format is a row of format_traits.cc for all of them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1/training_job.h"

namespace lockstep::api {

// What the label of a sample is.
enum class FormatLabels {
  kClass,
  kClassOrShare,  // with a loss that takes numbers, its class divided by the number of classes
  kNumber,        // one of any value, or a class
  kNumbers,       // so many as there are in the file, or a class
};

// How many files the training samples are in.
enum class FormatFiles {
  kNone,     // they are generated
  kOne,      // or two that hold them together, as IDX's images and labels do
  kSeveral,  // only the folder says how many
  kEach,     // each sample is a file
};

struct FormatTraits {
  // Samples are generated as the format's section says. All others are in the files of
  // dataset.path.
  bool is_generated = false;
  // Samples are JPEG or PNG, which are decoded and resized to dataset.imageSize.
  bool decodes_images = false;
  // What a data set of the format must have for that, if it does not always: "without a shape".
  std::string_view decodes_images_if = {};
  bool may_be_images = true;  // false: a row of a table
  FormatLabels labels = FormatLabels::kClass;
  FormatFiles files = FormatFiles::kSeveral;
  std::size_t extents = 0;  // that the job says samples have; 0: it does not
  // The shape of a sample (images: C,H,W) and the number of classes, if the job or the format says
  // them. nullopt: only the files do.
  std::optional<std::vector<std::int64_t>> sample_shape = {};
  std::optional<std::int64_t> classes = {};
  bool has_settings = false;  // the section of dataset that is called like the format is set
  // Patterns, as of the shell, of the training files by which a folder is known to have the format;
  // with / at the end, of a folder. And the same for people; empty: it has no files.
  std::vector<std::string_view> train_files = {};
  std::string_view train_files_text = {};
};

FormatTraits TraitsOf(const DatasetSpec& dataset);
// Those of a data set of the format without further settings.
FormatTraits TraitsOf(DatasetFormat format);

// Returns true if the labels of the format may be numbers of any value.
bool MayHaveNumbers(const FormatTraits& traits);

// Returns true if the training samples may be in several files.
bool MayHaveFiles(const FormatTraits& traits);

// Returns the names of the formats for which `has` holds, for a message, by the alphabet: "csv, npy
// or synthetic".
std::string NamesOfFormats(bool (*has)(const FormatTraits& traits),
                           std::string_view before_last = " or ");
// Returns the formats that decode images, with their conditions: "imageFolder, or with tfrecord
// without a shape".
std::string FormatsThatDecodeImages();

}  // namespace lockstep::api
