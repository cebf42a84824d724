// Reads and writes float32 tensors in the safetensors format (github.com/huggingface/safetensors,
// "Format"): a little-endian u64 with the length of a JSON header, the header, then the data
// without gaps. Python's `safetensors` package can read these files.
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
  std::vector<float> data;   // dense, row-major
  std::string type = "F32";  // another one: the tensor has a name, and neither shape nor data
  bool operator==(const NamedTensor&) const = default;
};

// Returns the bytes before the data: length and JSON, padded to align the data to 8 bytes.
// InvalidArgument: two tensors with the same name, the reserved name __metadata__, a name that is
// not UTF-8, or data that does not match its shape.
absl::StatusOr<std::string> SafetensorsHeader(const std::vector<NamedTensor>& tensors);

// Returns a file's pieces in order, without copying data. `header` is SafetensorsHeader's result.
// Requires: `header` and `tensors` outlive the result.
std::vector<std::span<const std::byte>> SafetensorsPieces(const std::string& header,
                                                          const std::vector<NamedTensor>& tensors);

enum class OtherTypes { kRefused, kNamed };

// Returns the tensors in the order of their data. Strict: every byte of the data must belong to
// exactly one tensor. `others`: what is to become of tensors of another type than float32. DataLoss
// names `file`, what was found and what is expected. On any input,
// allocates at most a small multiple of the input's size.
absl::StatusOr<std::vector<NamedTensor>> ParseSafetensors(std::string_view bytes,
                                                          const std::string& file,
                                                          OtherTypes others = OtherTypes::kRefused);

}  // namespace lockstep::train
