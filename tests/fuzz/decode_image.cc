// JPEG and PNG images: the whole input is a file.
#include "trainer/data/decode_image.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static lockstep::train::Pixels image;
  for (const int channels : {1, 3}) {
    const absl::Status status = lockstep::train::DecodeImage({data, size}, channels, image);
    if (!status.ok()) {
      Require(!status.message().empty(), "a refusal says why");
      continue;
    }
    Require(image.channels == static_cast<std::size_t>(channels), "it has the channels asked for");
    Require(image.bytes.size() == image.height * image.width * image.channels,
            "every pixel is there");
  }
  return 0;
}
