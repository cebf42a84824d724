// MNIST's files: the first half of the input is the images', the second the labels'.
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_directory.h"
#include "trainer/data/formats/idx.h"

using lockstep::fuzz::Require;
using lockstep::train::OpenIdx;
using lockstep::train::Split;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const lockstep::TempDirectory folder;
  const std::string text = lockstep::fuzz::Text(data, size);
  lockstep::WriteTextFile(folder.At("train-images-idx3-ubyte"), text.substr(0, size / 2));
  lockstep::WriteTextFile(folder.At("train-labels-idx1-ubyte"), text.substr(size / 2));
  for (const bool in_memory : {true, false}) {
    const auto dataset = OpenIdx(folder.path(), Split::kTrain, in_memory);
    if (!dataset.ok()) Require(!dataset.status().message().empty(), "a refusal says why");
  }
  return 0;
}
