// Random changes to training images, as they are usual for CIFAR: pure functions of the seed, the
// epoch and the sample's position in it, so that any number of ranks or threads gives the same
// bits. Images are C,H,W bytes. And which samples a job may ask such a thing of.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "api/v1/training_job.h"
#include "trainer/core/dtype.h"
#include "trainer/core/shape.h"

namespace lockstep::train {

// What is done to one image, in this order.
struct Augmentation {
  // Moves the image; what leaves it is lost, and what enters it is 0. This is a crop to the image's
  // size of the image with padding.
  std::int64_t down = 0, right = 0;
  bool flip = false;  // left becomes right
  // Sets a square to 0, the part of it that lies in the image. Its side is 0 for none.
  std::int64_t square_top = 0, square_left = 0, square_size = 0;
  bool operator==(const Augmentation&) const = default;
};

// Draws the changes for the sample at `position` of `epoch`. A crop moves by -padding to padding
// pixels each way, and the center of a square is any pixel (DeVries & Taylor, "Improved
// regularization of convolutional neural networks with cutout", 2017): all equally likely.
// Requires: `shape` is C,H,W.
Augmentation DrawAugmentation(const api::AugmentSpec& spec, const Shape& shape, std::uint64_t seed,
                              std::uint64_t epoch, std::int64_t position);

// Changes `image` in place. Requires: `shape` is C,H,W and image.size() == shape.elements().
void Augment(const Augmentation& change, const Shape& shape, std::span<std::uint8_t> image);

// InvalidArgument: samples of this shape and element are not images of bytes, or are too small for
// the padding or the square; names the field. api::Validate checks what a job itself says of them.
absl::Status CheckAugment(const api::AugmentSpec& spec, const Shape& shape, DType element);

// InvalidArgument: samples of this shape and element are not images of bytes, have another number
// of channels than there are means and deviations, or float32 cannot hold what normalizes them;
// names the field. Floats are refused because their unit is not known.
absl::Status CheckNormalize(const api::NormalizeSpec& spec, const Shape& shape, DType element);

}  // namespace lockstep::train
