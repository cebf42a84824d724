// Damaged copies of a text, the same in every run, for parsers that must reject them and never
// crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trainer/core/rng.h"

namespace lockstep {

// Returns the `n`th copy: cut short, lengthened, or with one to four bytes or bits changed.
inline std::string Mutate(std::string text, std::uint64_t n) {
  const train::PhiloxBlock random = train::Philox(0x4D75, n, 0);
  if (n % 4 == 0) {
    text.resize(random[0] % (text.size() + 1));
  } else if (n % 16 == 1) {
    text.append(random[0] % 64 + 1, static_cast<char>(random[1]));
  } else if (!text.empty()) {
    for (std::uint64_t change = 0; change <= random[0] % 4; ++change) {
      const train::PhiloxBlock where = train::Philox(0x4D75, n, change + 1);
      char& byte = text[where[0] % text.size()];
      byte = where[1] % 2 == 0 ? static_cast<char>(where[2])
                               : static_cast<char>(byte ^ (1 << (where[2] % 8)));
    }
  }
  return text;
}

}  // namespace lockstep
