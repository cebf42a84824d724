// Builds IDX files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"

namespace lockstep::train {

inline std::string BigEndian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xFF);
  return bytes;
}

// Pixel p of image i is i * 10 + p, modulo 256.
inline std::string ImageFile(std::uint32_t count, std::uint32_t height = 2,
                             std::uint32_t width = 3) {
  std::string bytes = BigEndian(0x803) + BigEndian(count) + BigEndian(height) + BigEndian(width);
  for (std::uint32_t image = 0; image < count; ++image) {
    for (std::uint32_t pixel = 0; pixel < height * width; ++pixel) {
      bytes += static_cast<char>(image * 10 + pixel);
    }
  }
  return bytes;
}

inline std::string LabelFile(const std::vector<std::uint8_t>& labels) {
  std::string bytes = BigEndian(0x801) + BigEndian(static_cast<std::uint32_t>(labels.size()));
  for (const std::uint8_t label : labels) bytes += static_cast<char>(label);
  return bytes;
}

// A folder with four training and two test images.
class IdxFolder {
 public:
  IdxFolder() {
    Write("train-images-idx3-ubyte", ImageFile(4));
    Write("train-labels-idx1-ubyte", LabelFile({0, 9, 3, 7}));
    Write("t10k-images-idx3-ubyte", ImageFile(2));
    Write("t10k-labels-idx1-ubyte", LabelFile({1, 2}));
  }
  void Write(const std::string& name, const std::string& content) {
    WriteTextFile(folder_.At(name), content);
  }
  void Remove(const std::string& name) { std::filesystem::remove(folder_.At(name)); }
  const std::string& path() const { return folder_.path(); }

 private:
  TempDirectory folder_;
};

}  // namespace lockstep::train
