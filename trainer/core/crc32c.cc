#include "trainer/core/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lockstep::train {
namespace {

constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b] is the contribution of byte b if k bytes follow it (Kounavis & Berry, "A systematic
// approach to building high performance software-based CRC generators", ISCC 2005).
constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kReflectedPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

std::uint64_t LoadLittleEndian64(const std::byte* bytes) {
  std::uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = (word << 8) | std::to_integer<std::uint64_t>(bytes[i]);
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t ExtendByInstruction(
    std::uint32_t crc, std::span<const std::byte> data) {
  std::uint64_t state = ~crc;
  const std::byte* next = data.data();
  std::size_t rest = data.size();
  for (; rest >= 8; rest -= 8, next += 8) {
    std::uint64_t word;
    std::memcpy(&word, next, sizeof word);
    state = _mm_crc32_u64(state, word);
  }
  auto tail = static_cast<std::uint32_t>(state);
  for (; rest > 0; --rest, ++next) tail = _mm_crc32_u8(tail, std::to_integer<unsigned char>(*next));
  return ~tail;
}
#endif

}  // namespace

std::uint32_t ExtendCrc32cPortable(std::uint32_t crc, std::span<const std::byte> data) {
  std::uint32_t state = ~crc;
  const std::byte* next = data.data();
  std::size_t rest = data.size();
  for (; rest >= 8; rest -= 8, next += 8) {
    const std::uint64_t word = LoadLittleEndian64(next) ^ state;
    state = 0;
    for (std::size_t i = 0; i < 8; ++i) state ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
  }
  for (; rest > 0; --rest, ++next) {
    state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<std::uint32_t>(*next)) & 0xFF];
  }
  return ~state;
}

std::uint32_t ExtendCrc32c(std::uint32_t crc, std::span<const std::byte> data) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ExtendByInstruction(crc, data);
#endif
  return ExtendCrc32cPortable(crc, data);
}

}  // namespace lockstep::train
