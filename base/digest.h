// FNV-1a, 64 bits (IETF draft-eastlake-fnv): detects differing texts, but does not withstand an
// adversary. Pure. Digests are stored (pod annotations, checkpoints), so their values must never
// change.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

inline constexpr std::uint64_t kEmptyDigest = 0xcbf29ce484222325;

// Returns the digest of the text that `before` is the digest of, followed by `text`.
constexpr std::uint64_t Digest(std::string_view text, std::uint64_t before = kEmptyDigest) {
  std::uint64_t hash = before;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace lockstep
