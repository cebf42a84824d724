// The header of a NumPy array.
#include "tests/fuzz/fuzz.h"
#include "trainer/data/formats/npy_array.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = lockstep::train::ParseNpyHeader({data, size}, "x.npy");
  if (!header.ok()) {
    Require(!header.status().message().empty(), "a refusal says why");
    return 0;
  }
  Require(header->offset <= size, "the header ends within the file");
  Require(header->bytes() >= 1, "an array has elements");
  return 0;
}
