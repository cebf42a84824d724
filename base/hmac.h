// HMAC-SHA256 (RFC 2104, FIPS 180-4) and related functions. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

std::string Sha256(std::string_view text);                               // 32 bytes
std::string HmacSha256(std::string_view key, std::string_view message);  // 32 bytes

// Compares in a time that does not depend on where the texts differ, so that a secret cannot be
// guessed byte by byte.
bool EqualInConstantTime(std::string_view a, std::string_view b);

// Returns bytes from a cryptographically secure generator.
std::string RandomBytes(std::size_t count);

std::string ToHex(std::string_view bytes);

}  // namespace lockstep
