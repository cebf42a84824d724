// Checkpoint files: what is read is written and read back as the same.
#include <cstring>

#include "tests/fuzz/fuzz.h"
#include "trainer/checkpoint/safetensors.h"

using lockstep::fuzz::Require;
using lockstep::train::NamedTensor;

namespace {

// NaNs differ from themselves, so bytes are compared.
bool SameBytes(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.shape == b.shape && a.data.size() == b.data.size() &&
         (a.data.empty() ||
          std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(float)) == 0);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tensors = lockstep::train::ParseSafetensors(lockstep::fuzz::Text(data, size), "fuzz");
  if (!tensors.ok()) {
    Require(!tensors.status().message().empty(), "a refusal says why");
    return 0;
  }
  const auto header = lockstep::train::SafetensorsHeader(*tensors);
  if (!header.ok()) return 0;  // names that only others may write
  std::string file;
  for (const auto piece : lockstep::train::SafetensorsPieces(*header, *tensors)) {
    file.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  const auto again = lockstep::train::ParseSafetensors(file, "written");
  Require(again.ok() && again->size() == tensors->size(), "what was written can be read");
  for (std::size_t i = 0; i < tensors->size(); ++i) {
    Require(SameBytes((*again)[i], (*tensors)[i]), "each tensor is the same");
  }
  return 0;
}
