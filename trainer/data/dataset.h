// A data set: samples by index. Implementations are immutable after opening and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
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
  // Only of data sets that decode images. SourceDigest: a digest of what tells which samples the
  // set has and how they are decoded and labelled: its files' names, but not their content.
  // StampOf: a number that another one replaces when the file of sample `index` changes; made of
  // its path, its size and the time of its last modification. Requires: 0 <= index < size().
  // Errors: as Read.
  virtual std::uint64_t SourceDigest() const;
  virtual absl::StatusOr<std::uint64_t> StampOf(std::int64_t index) const;
  // True if Read costs no more than a copy, so that a loader needs no thread.
  virtual bool InMemory() const = 0;
};

enum class Split { kTrain, kTest };

// kNumbers: labels are numbers; only the formats csv, npy and synthetic support that, and in the
// others labels stay classes. kTwoClasses: the loss takes two classes, so idx does not assume at
// least ten.
enum class LabelKind { kClasses, kTwoClasses, kNumbers };

// The largest label that files may hold: there are up to a million classes.
inline constexpr std::int32_t kMaxLabel = 999'999;

// Returns PlaceOf the first sample whose class is `classes` or above, and that class. Reads labels
// until then: for the message of an error. Without such a sample, names the last one.
std::string PlaceBeyond(std::int64_t classes, const Dataset& data);

struct TrainAndTest {
  std::unique_ptr<Dataset> train, test;  // `test` is null if it is not wanted
};

// Returns the bytes that a data set of `samples` samples of this shape keeps in memory once all
// have been read. Mapped files do not count; files are assumed not to be gzip.
std::size_t BytesKept(const api::DatasetSpec& spec, const Shape& sample, DType element,
                      std::int64_t samples);

// Returns what InMemory() will return for a data set of `samples` samples of this shape once it is
// open.
bool WillBeInMemory(const api::DatasetSpec& spec, const Shape& sample, DType element,
                    std::int64_t samples);

// Returns true if mapped samples of this size count as in memory while they are still being read
// ahead: a step waits only briefly for those that are missing. Larger sets may never be in memory
// as a whole.
bool CountsAsInMemory(std::uint64_t sample_bytes);

// The type of the samples' elements; nullopt if only the files say it.
std::optional<DType> ElementOf(const api::DatasetSpec& spec);

// Opens the training set and, if `with_test`, the test set: the files', or with
// spec.validation_fraction above 0 two parts of the training files, which are opened once. `seed`
// draws the parts, and synthetic samples. With spec.cache = false, samples are read (or generated)
// on demand; a loader does so ahead of time on a thread if spec.prefetch > 0. NotFound and DataLoss
// name the file, what was found and what is expected. InvalidArgument names the field.
absl::StatusOr<TrainAndTest> OpenDatasets(const api::DatasetSpec& spec, bool with_test,
                                          std::uint64_t seed,
                                          LabelKind labels = LabelKind::kClasses);

// Returns a digest of up to 256 samples, evenly spread, the first and the last among them: equal
// for equal samples, wherever they are stored and whatever processor reads them. Digests at most 64
// MiB, but at least two samples. So it costs no more than to read a batch, and two sets that differ
// in few samples may have the same. Checkpoints store the digest: if the algorithm changes, old
// checkpoints seem to be of other data. Times of files say less: each copy of a data set has its
// own. Errors: those of Dataset::Read.
absl::StatusOr<std::uint64_t> DigestOfSamples(const Dataset& data);

// Returns a text that identifies `data`: its sizes and DigestOfSamples. Errors: as for
// DigestOfSamples.
absl::StatusOr<std::string> IdentityOf(const Dataset& data);

// Opens only the test set, without the training files unless it is a part of them. Errors as
// above.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTestSet(const api::DatasetSpec& spec,
                                                     std::uint64_t seed, LabelKind labels);

}  // namespace lockstep::train
