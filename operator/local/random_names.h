// Generates what an API server generates at random: uids, and the suffixes of generated names. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace lockstep::local {

class RandomNames {
 public:
  explicit RandomNames(std::uint64_t seed) : random_(seed) {}

  std::string Uid();     // a random UUID: "1b4e28ba-2fa1-4d1e-883f-0016d3cca427"
  std::string Suffix();  // "x7k2p", without letters that could spell words

 private:
  std::mt19937_64 random_;
};

}  // namespace lockstep::local
