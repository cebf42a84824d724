#include "base/hmac.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace lockstep {

std::string Sha256(std::string_view text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  LOCKSTEP_CHECK(
      EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                 EVP_sha256(), nullptr) == 1,
      "OpenSSL made no SHA-256 of {} bytes", text.size());
  digest.resize(size);
  return digest;
}

std::string HmacSha256(std::string_view key, std::string_view message) {
  std::string mac(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size);
  LOCKSTEP_CHECK(made != nullptr, "OpenSSL made no HMAC of {} bytes", message.size());
  mac.resize(size);
  return mac;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(std::size_t count) {
  std::string bytes(count, '\0');
  LOCKSTEP_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1,
      "OpenSSL made no {} random bytes", count);
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

}  // namespace lockstep
