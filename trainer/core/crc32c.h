// CRC-32C (Castagnoli polynomial, RFC 3720 appendix B.4), as in checkpoints and TFRecord files.
// Uses the CPU's CRC instruction if it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::train {

// The checksum of A followed by B is ExtendCrc32c(Crc32c(A), B). The checksum of no data is 0.
std::uint32_t ExtendCrc32c(std::uint32_t crc, std::span<const std::byte> data);

inline std::uint32_t Crc32c(std::span<const std::byte> data) {
  return ExtendCrc32c(0, data);
}
inline std::uint32_t Crc32c(std::string_view data) {
  return Crc32c(std::as_bytes(std::span(data.data(), data.size())));
}

// ExtendCrc32c by tables, for CPUs without the instruction. Public for tests.
std::uint32_t ExtendCrc32cPortable(std::uint32_t crc, std::span<const std::byte> data);

}  // namespace lockstep::train
