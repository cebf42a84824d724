// TFRecord: the input is a file, and an example.
#include <cstdint>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "trainer/data/formats/tf_example.h"
#include "trainer/data/formats/tfrecord.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto records = lockstep::train::FindRecords({data, size}, "a.tfrecord");
  if (records.ok()) {
    for (const std::uint64_t offset : *records) {
      (void)lockstep::train::RecordAt({data, size}, offset, "a.tfrecord");
    }
  }
  for (const char* name : {"image", "label"}) {
    const auto feature = lockstep::train::FindTfFeature({data, size}, name);
    if (!feature.ok()) Require(!feature.status().message().empty(), "a refusal says why");
    if (!feature.ok() || !*feature) continue;
    if (const auto bytes = OnlyBytes(**feature)) Require(bytes->size() <= size, "it is a part");
    (void)OnlyInteger(**feature);
    std::vector<std::uint8_t> floats(16);
    (void)CopyFloats(**feature, floats);
  }
  return 0;
}
