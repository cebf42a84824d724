// CRC-32C (Castagnoli polynomial, RFC 3720 appendix B.4): what checkpoints and TFRecord files
// carry. Uses the CPU's own instruction where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::train {

// The checksum of A followed by B is ExtendCrc32c(Crc32c(A), B); that of nothing is 0.
std::uint32_t ExtendCrc32c(std::uint32_t crc, std::span<const std::byte> data);

inline std::uint32_t Crc32c(std::span<const std::byte> data) {
  return ExtendCrc32c(0, data);
}
inline std::uint32_t Crc32c(std::string_view data) {
  return Crc32c(std::as_bytes(std::span(data.data(), data.size())));
}

// The same by tables, for CPUs without the instruction (and for its test).
std::uint32_t ExtendCrc32cPortable(std::uint32_t crc, std::span<const std::byte> data);

}  // namespace lockstep::train
