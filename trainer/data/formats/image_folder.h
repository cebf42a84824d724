// Reads folders of images: one folder for each class.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/data/dataset.h"
#include "trainer/data/decoded_source.h"

namespace lockstep::train {

// How an image becomes a sample of C,H,W bytes.
struct ImageForm {
  std::size_t channels = 3, height = 0, width = 0;
  api::Interpolation interpolation = api::Interpolation::kBilinear;

  // Requires: spec.image_size has two entries.
  static ImageForm Of(const api::DatasetSpec& spec);
  Shape shape() const;
  // Decodes and resamples an image. DataLoss is DecodeImage's.
  absl::Status Decode(std::span<const std::uint8_t> file, std::span<std::uint8_t> sample) const;
  // Tells forms apart.
  std::string Text() const;
  // Extends the digest `before` by the encoded image `file`, the form that it is decoded to, and
  // its label.
  std::uint64_t Digest(std::span<const std::uint8_t> file, std::int32_t label,
                       std::uint64_t before) const;
};

// Opens spec.path/train, or of spec.path/test, validation and val the first that has folders. Their
// folders are the classes, in the order of their names' bytes. Without a folder "train", spec.path
// itself holds the classes, all of them training samples. The test set has the classes of the
// training set: it may lack some, and their folders may be empty; each training class has an image.
//
// A class's samples are its files *.jpg, *.jpeg and *.png, in the order of their names; images of
// other formats are refused by name, other files ignored. Opening lists the folders; a file is read
// and decoded whenever its sample is.
//
// NotFound names the folder looked for. DataLoss names the file and what is wrong with it.
absl::StatusOr<std::unique_ptr<DecodedSource>> OpenImageFolder(const api::DatasetSpec& spec,
                                                               Split split);

}  // namespace lockstep::train
