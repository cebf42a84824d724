// One array in NumPy's file format: numpy.lib.format, "NPY format", versions 1.0 to 3.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/shape.h"
#include "trainer/data/file_bytes.h"

namespace lockstep::train {

struct NpyHeader {
  std::string dtype;          // "|u1", "<f4", …: one of ItemBytes' keys
  Shape shape;                // at most 8 extents of at least 1
  std::size_t offset = 0;     // of the first element in the file
  std::size_t bytes() const;  // of all elements
};

// Reads a header from a file's first bytes. DataLoss names `path`, the offset, what was found and
// what is expected. Rejected, too: arrays in Fortran order, big-endian and structured ones.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const std::uint8_t> file,
                                         const std::string& path);

// The size of an element; 0 for a type that is not read. Float64 is not: it would lose precision.
std::size_t ItemBytes(const std::string& dtype);

struct NpyArray {
  std::string path;
  FileBytes file;
  NpyHeader header;
  std::span<const std::uint8_t> data() const { return file.bytes().subspan(header.offset); }
};

// Maps the file, so that opening does not read the elements. DataLoss, too, if the file has not
// exactly the elements that its header announces. Other errors are those of FileBytes.
absl::StatusOr<NpyArray> OpenNpyArray(const std::string& path);

}  // namespace lockstep::train
