// Builds NumPy files for tests, as numpy.save writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"

namespace lockstep::train {

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The header of format 1.0 for `dictionary`, padded with spaces to a multiple of 64 bytes.
inline std::string NpyHeaderText(std::string dictionary) {
  while ((10 + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  const std::size_t length = dictionary.size();
  std::string bytes = "\x93NUMPY";
  for (const std::size_t byte : {std::size_t{1}, std::size_t{0}, length & 0xFF, length >> 8}) {
    bytes += static_cast<char>(byte);
  }
  return bytes + dictionary;
}

template <class T>
std::string NpyFile(const std::string& dtype, const std::string& shape,
                    const std::vector<T>& values) {
  return NpyHeaderText("{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape +
                       ", }") +
         BytesOf(values);
}

}  // namespace lockstep::train
