// A data set: samples by index. Implementations are immutable after opening and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/dtype.h"
#include "trainer/core/shape.h"

namespace lockstep::train {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const Shape& sample_shape() const = 0;  // images: C,H,W; features: any rank
  // kUInt8: 0-255, which the model sees as 0-1. kFloat32: the model sees the numbers as they are.
  virtual DType element() const { return DType::kUInt8; }
  std::size_t sample_bytes() const {
    return static_cast<std::size_t>(sample_shape().elements()) * SizeOf(element());
  }
  virtual std::int64_t classes() const = 0;
  // Copies the elements of sample `index` into `sample`, floats in this machine's byte order, and
  // returns its label. Requires: 0 <= index < size(), and sample.size() == sample_bytes().
  // DataLoss names the file and the sample that cannot be read. A file that is read for the sample
  // may also give NotFound (it is gone) or Unavailable (an I/O error or a lack of memory, which may
  // pass; std::bad_alloc means the same). Of a file that was mapped when it was opened, an I/O
  // error ends the process: see MappedFile.
  virtual absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                            std::span<std::uint8_t> sample) const = 0;
  // Returns the label of sample `index`, without decoding the sample where labels are stored beside
  // the samples. Requires: 0 <= index < size(). Errors: as Read.
  virtual absl::StatusOr<std::int32_t> LabelOf(std::int64_t index) const;
  // Names sample `index` for a message, where possible by its file and its place there. Requires:
  // 0 <= index < size().
  virtual std::string PlaceOf(std::int64_t index) const;
  // How many numbers a sample's label is. 0: labels are classes. Above 0: Read and classes() say
  // nothing about labels (Read returns 0).
  virtual std::int64_t targets() const { return 0; }
  // Copies the numbers of sample `index`'s label. Requires: 0 <= index < size(), and
  // numbers.size() == targets() > 0.
  virtual void ReadTargets(std::int64_t index, std::span<float> numbers) const;
  // Extends the digest `before` (base/digest.h) by sample `index` and its label, as Read returns
  // them. An image, whose pixels may depend on the processor because decoders and resampling round
  // differently, is digested as its file stores it. Requires: 0 <= index < size(). Errors: as Read.
  virtual absl::StatusOr<std::uint64_t> DigestOf(std::int64_t index, std::uint64_t before) const;
  // How many files the samples are in, and which one sample `index` is in: 0 to files() - 1. Files
  // that hold the samples together, as IDX's images and labels do, count as one. Requires: 0 <=
  // index < size().
  virtual std::int64_t files() const { return 1; }
  virtual std::int64_t FileOf(std::int64_t index) const;
  // True if Read costs no more than a copy, so that a loader needs no thread.
  virtual bool InMemory() const = 0;
};

enum class Split { kTrain, kTest };

// kNumbers: labels are numbers, only of formats for which api::MayHaveNumbers holds; in the others
// labels stay classes. kTwoClasses: the loss takes two classes, so idx does not assume at least
// ten.
enum class LabelKind { kClasses, kTwoClasses, kNumbers };

// The largest label that files may hold: there are up to a million classes.
inline constexpr std::int32_t kMaxLabel = 999'999;

// Returns PlaceOf the first sample whose class is `classes` or above, and that class. Reads labels
// until then: for the message of an error. Without such a sample, names the last one.
std::string PlaceBeyond(std::int64_t classes, const Dataset& data);

struct TrainAndTest {
  std::unique_ptr<Dataset> train, test;  // `test` is null if it is not wanted
};

}  // namespace lockstep::train
