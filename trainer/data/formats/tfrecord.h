// Reads TFRecord files of tf.train.Example: tensorflow/core/lib/io/record_writer.h, "Format of a
// single record".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/data/dataset.h"
#include "trainer/data/decoded_source.h"

namespace lockstep::train {

// Returns where each record's data begins in a file's content. Checks every length, its checksum,
// and that the last record is complete, but not the data. DataLoss names `path`, the offset, what
// was found and what is expected.
absl::StatusOr<std::vector<std::uint64_t>> FindRecords(std::span<const std::uint8_t> file,
                                                       const std::string& path);

// Returns the data of a record that FindRecords found. DataLoss: its checksum is wrong.
// Unavailable: the file has been rewritten since.
absl::StatusOr<std::span<const std::uint8_t>> RecordAt(std::span<const std::uint8_t> file,
                                                       std::uint64_t offset,
                                                       const std::string& path);

// Opens all files of spec.path whose names match spec.tfrecord's trainFiles or testFiles, in the
// order of their names; plain ones are mapped, gzip is inflated (options="GZIP" of TensorFlow).
// Opening reads the records' headers, and every label of this split unless tfrecord.classes is set;
// several files at once.
//
// An image is one bytes value: raw pixels (H,W,C, uint8) if tfrecord.shape is set, else JPEG or
// PNG. With a shape, it may be a list of floats instead, in the order of the shape, which is then
// kept. The kind is that of the first record. A label is one integer.
//
// NotFound names the pattern. DataLoss names the file, the record's offset, found and expected.
absl::StatusOr<std::unique_ptr<DecodedSource>> OpenTfRecord(const api::DatasetSpec& spec,
                                                            Split split);

}  // namespace lockstep::train
