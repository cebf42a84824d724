// Float32 tensors in the safetensors format (github.com/huggingface/safetensors, "Format"): a
// little-endian u64 with the length of a JSON header, the header, the data without holes. Python's
// `safetensors` package reads these files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/core/shape.h"

namespace lockstep::train {

struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> data;  // dense, row-major
  bool operator==(const NamedTensor&) const = default;
};

// Everything that comes before the data: length and JSON, padded so that the data is aligned to 8
// bytes. InvalidArgument: two tensors of one name, the reserved name __metadata__, a name that is
// not UTF-8, or data that does not fill its shape.
absl::StatusOr<std::string> SafetensorsHeader(const std::vector<NamedTensor>& tensors);

// The pieces of a file, in order, without copying any data. `header` is SafetensorsHeader's.
std::vector<std::span<const std::byte>> SafetensorsPieces(const std::string& header,
                                                          const std::vector<NamedTensor>& tensors);

// Strict: every byte of the data belongs to exactly one tensor. In the order of the data. DataLoss
// names `file`, what was found and what is expected; no input makes it allocate more than the
// input's own size, a few times over.
absl::StatusOr<std::vector<NamedTensor>> ParseSafetensors(std::string_view bytes,
                                                          const std::string& file);

}  // namespace lockstep::train
