#include "operator/local/random_names.h"

#include <fmt/format.h>

#include <string_view>

namespace lockstep::local {

std::string RandomNames::Uid() {
  const std::uint64_t a = random_();
  const std::uint64_t b = random_();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:x}{:03x}-{:012x}", a >> 32, (a >> 16) & 0xffff,
                     a & 0xfff, 8 + ((b >> 62) & 3), (b >> 48) & 0xfff, b & 0xffffffffffff);
}

std::string RandomNames::Suffix() {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string suffix;
  for (int i = 0; i < 5; ++i) suffix += kLetters[random_() % kLetters.size()];
  return suffix;
}

}  // namespace lockstep::local
