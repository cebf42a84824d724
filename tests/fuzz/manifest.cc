// A checkpoint's manifest: what is read is written and read back as the same.
#include "trainer/checkpoint/manifest.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto manifest =
      lockstep::train::DecodeManifest(lockstep::fuzz::Text(data, size), "manifest.json");
  if (!manifest.ok()) {
    Require(!manifest.status().message().empty(), "a refusal says why");
    return 0;
  }
  const auto again =
      lockstep::train::DecodeManifest(lockstep::train::EncodeManifest(*manifest), "written");
  Require(again.ok() && *again == *manifest, "written and read back, it is the same");
  return 0;
}
