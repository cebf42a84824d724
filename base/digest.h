// FNV-1a, 64 bits (RFC draft-eastlake-fnv): tells texts apart, no defence against an adversary.
// Pure. Digests are stored (pods' annotations, checkpoints): their values never change.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

inline constexpr std::uint64_t kEmptyDigest = 0xcbf29ce484222325;

// Of what `before` is the digest of, with `text` put at its end.
constexpr std::uint64_t Digest(std::string_view text, std::uint64_t before = kEmptyDigest) {
  std::uint64_t hash = before;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace lockstep
