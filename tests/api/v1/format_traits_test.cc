#include "api/v1/format_traits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "api/v1/enum_names.h"

namespace lockstep::api {
namespace {

using Dims = std::vector<std::int64_t>;

TEST(FormatTraitsTest, AFormatIsKnownByFilesOfItsOwnUnlessItIsGenerated) {
  std::set<std::string_view> seen;
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    const FormatTraits traits = TraitsOf(format);
    EXPECT_EQ(traits.train_files.empty(), traits.is_generated) << name;
    EXPECT_EQ(traits.train_files_text.empty(), traits.is_generated) << name;
    for (const std::string_view file : traits.train_files) {
      EXPECT_TRUE(seen.insert(file).second) << name << ": " << file;
    }
  }
}

TEST(FormatTraitsTest, OnlyWhatIsGeneratedHasNoFiles) {
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    const FormatTraits traits = TraitsOf(format);
    EXPECT_EQ(traits.files == FormatFiles::kNone, traits.is_generated) << name;
  }
}

TEST(FormatTraitsTest, ASectionOfSettingsIsCalledLikeItsFormat) {
  TrainingSpec training;
  DatasetSpec& dataset = training.dataset;
  dataset.synthetic.emplace();
  dataset.npy.emplace();
  dataset.csv.emplace();
  dataset.tfrecord.emplace();
  const Json fields = TrainingSpecToJson(training).at("dataset");
  int sections = 0;
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    dataset.format = format;
    EXPECT_EQ(TraitsOf(dataset).has_settings, fields.contains(name)) << name;
    EXPECT_FALSE(TraitsOf(format).has_settings) << name;
    sections += TraitsOf(dataset).has_settings ? 1 : 0;
  }
  EXPECT_EQ(sections, 4);
}

TEST(FormatTraitsTest, OnlyWhatMayBeAnImageIsDecoded) {
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    const FormatTraits traits = TraitsOf(format);
    EXPECT_TRUE(traits.may_be_images || !traits.decodes_images) << name;
    EXPECT_TRUE(traits.decodes_images || traits.decodes_images_if.empty()) << name;
  }
}

TEST(FormatTraitsTest, TheJobSaysTheShapeOfWhatIsDecodedOrGenerated) {
  DatasetSpec dataset{.format = DatasetFormat::kImageFolder};
  EXPECT_EQ(TraitsOf(dataset).sample_shape, std::nullopt);
  dataset.image_size = {8, 9};
  EXPECT_EQ(TraitsOf(dataset).sample_shape, (Dims{3, 8, 9}));
  dataset.format = DatasetFormat::kTfRecord;
  EXPECT_EQ(TraitsOf(dataset).sample_shape, (Dims{3, 8, 9}));
  EXPECT_EQ(TraitsOf(dataset).classes, std::nullopt);
  dataset.tfrecord.emplace().classes = 7;
  EXPECT_EQ(TraitsOf(dataset).classes, 7);
  dataset.tfrecord->shape = {8, 9, 3};
  EXPECT_FALSE(TraitsOf(dataset).decodes_images);
  EXPECT_EQ(TraitsOf(dataset).sample_shape, std::nullopt) << "only the files say its order";
  dataset.format = DatasetFormat::kSynthetic;
  EXPECT_EQ(TraitsOf(dataset).sample_shape, SyntheticSpec{}.shape);
  EXPECT_EQ(TraitsOf(dataset).classes, SyntheticSpec{}.classes);
  EXPECT_EQ(TraitsOf(DatasetFormat::kCifar).sample_shape, (Dims{3, 32, 32}));
  EXPECT_EQ(TraitsOf(DatasetFormat::kIdx).sample_shape, std::nullopt);
}

TEST(FormatTraitsTest, MessagesNameTheFormatsByTheAlphabet) {
  EXPECT_EQ(NamesOfFormats(MayHaveNumbers), "csv, npy or synthetic");
  EXPECT_EQ(NamesOfFormats(MayHaveNumbers, " and "), "csv, npy and synthetic");
  EXPECT_EQ(NamesOfFormats([](const FormatTraits& traits) { return !traits.may_be_images; }),
            "csv");
  EXPECT_EQ(FormatsThatDecodeImages(), "imageFolder, or with tfrecord without a shape");
}

}  // namespace
}  // namespace lockstep::api
