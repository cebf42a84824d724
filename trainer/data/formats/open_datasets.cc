#include "trainer/data/formats/open_datasets.h"

#include <utility>

#include "api/v1/format_traits.h"
#include "base/check.h"
#include "base/status.h"
#include "trainer/data/decoded_source.h"
#include "trainer/data/disk_cache.h"
#include "trainer/data/formats/cifar.h"
#include "trainer/data/formats/csv.h"
#include "trainer/data/formats/idx.h"
#include "trainer/data/formats/image_folder.h"
#include "trainer/data/formats/npy.h"
#include "trainer/data/formats/synthetic.h"
#include "trainer/data/formats/tfrecord.h"
#include "trainer/data/held_out.h"
#include "trainer/data/memory_cache.h"

namespace lockstep::train {
namespace {

// What keeps decoded samples, as the job says.
std::unique_ptr<Dataset> Keep(const api::DatasetSpec& spec, std::unique_ptr<DecodedSource> source) {
  std::unique_ptr<Dataset> kept;
  if (spec.cache_directory.empty()) {
    kept = std::move(source);
  } else {
    kept = CacheOnDisk(std::move(source), spec.cache_directory);
  }
  return spec.cache ? CacheInMemory(std::move(kept)) : std::move(kept);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenFormat(const api::DatasetSpec& spec, Split split,
                                                    std::uint64_t seed, LabelKind labels) {
  switch (spec.format) {
    case api::DatasetFormat::kIdx:
      return OpenIdx(spec.path, split, spec.cache, labels);
    case api::DatasetFormat::kCifar:
      return OpenCifar(spec.path, split, spec.cache);
    case api::DatasetFormat::kNpy:
      return OpenNpy(spec.path, spec.npy.value_or(api::NpySpec{}), split, spec.cache, labels);
    case api::DatasetFormat::kCsv:
      return OpenCsv(spec.path, spec.csv.value_or(api::CsvSpec{}), split, labels);
    case api::DatasetFormat::kImageFolder: {
      LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<DecodedSource> images,
                                OpenImageFolder(spec, split));
      return Keep(spec, std::move(images));
    }
    case api::DatasetFormat::kTfRecord: {
      LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<DecodedSource> records, OpenTfRecord(spec, split));
      return api::TraitsOf(spec).decodes_images ? Keep(spec, std::move(records))
                                                : std::move(records);
    }
    case api::DatasetFormat::kSynthetic:
      return MakeSynthetic(spec.synthetic.value_or(api::SyntheticSpec{}), split, seed, spec.cache,
                           labels);
  }
  LOCKSTEP_CHECK(false, "unknown data set format {}", static_cast<int>(spec.format));
}

}  // namespace

absl::StatusOr<TrainAndTest> OpenDatasets(const api::DatasetSpec& spec, bool with_test,
                                          std::uint64_t seed, LabelKind labels) {
  TrainAndTest opened;
  LOCKSTEP_ASSIGN_OR_RETURN(opened.train, OpenFormat(spec, Split::kTrain, seed, labels));
  if (spec.validation_fraction > 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        opened, DivideDataset(std::move(opened.train), spec.validation_fraction, seed));
    if (!with_test) opened.test = nullptr;
  } else if (with_test) {
    LOCKSTEP_ASSIGN_OR_RETURN(opened.test, OpenFormat(spec, Split::kTest, seed, labels));
  }
  return opened;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenTestSet(const api::DatasetSpec& spec,
                                                     std::uint64_t seed, LabelKind labels) {
  if (spec.validation_fraction <= 0) return OpenFormat(spec, Split::kTest, seed, labels);
  LOCKSTEP_ASSIGN_OR_RETURN(TrainAndTest opened, OpenDatasets(spec, true, seed, labels));
  return std::move(opened.test);
}

std::size_t BytesKept(const api::DatasetSpec& spec, const Shape& sample, DType element,
                      std::int64_t samples) {
  const auto sample_bytes = static_cast<std::size_t>(sample.elements()) * SizeOf(element);
  switch (spec.format) {
    case api::DatasetFormat::kIdx:
    case api::DatasetFormat::kCifar:
    case api::DatasetFormat::kNpy:
      return 0;
    case api::DatasetFormat::kCsv:
      return BytesOfTable(samples, sample.elements());
    case api::DatasetFormat::kTfRecord:
      if (!api::TraitsOf(spec).decodes_images) return 0;  // copied from mapped files
      [[fallthrough]];
    case api::DatasetFormat::kImageFolder:
      return (spec.cache ? BytesOfDecoded(samples, sample_bytes) : 0) +
             (spec.cache_directory.empty() ? 0 : BytesOfStamps(samples));
    case api::DatasetFormat::kSynthetic:
      return BytesOfSynthetic(spec.synthetic.value_or(api::SyntheticSpec{}).classes, sample_bytes,
                              samples, spec.cache);
  }
  LOCKSTEP_CHECK(false, "unknown data set format {}", static_cast<int>(spec.format));
  return 0;
}

bool WillBeInMemory(const api::DatasetSpec& spec, const Shape& sample, DType element,
                    std::int64_t samples) {
  switch (spec.format) {
    case api::DatasetFormat::kIdx:
    case api::DatasetFormat::kCifar:
    case api::DatasetFormat::kNpy:
      return spec.cache && CountsAsInMemory(static_cast<std::uint64_t>(sample.elements()) *
                                            SizeOf(element) * static_cast<std::uint64_t>(samples));
    case api::DatasetFormat::kCsv:
      return true;
    case api::DatasetFormat::kTfRecord:
    case api::DatasetFormat::kImageFolder:
      return false;
    case api::DatasetFormat::kSynthetic:
      return KeepsSynthetic(static_cast<std::size_t>(sample.elements()), samples, spec.cache);
  }
  LOCKSTEP_CHECK(false, "unknown data set format {}", static_cast<int>(spec.format));
  return false;
}

std::optional<DType> ElementOf(const api::DatasetSpec& spec) {
  switch (spec.format) {
    case api::DatasetFormat::kCsv:
      return DType::kFloat32;
    case api::DatasetFormat::kNpy:
      return std::nullopt;
    case api::DatasetFormat::kTfRecord:
      if (!api::TraitsOf(spec).decodes_images) return std::nullopt;
      return DType::kUInt8;
    case api::DatasetFormat::kIdx:
    case api::DatasetFormat::kCifar:
    case api::DatasetFormat::kImageFolder:
    case api::DatasetFormat::kSynthetic:
      return DType::kUInt8;
  }
  LOCKSTEP_CHECK(false, "unknown data set format {}", static_cast<int>(spec.format));
  return std::nullopt;
}

}  // namespace lockstep::train
