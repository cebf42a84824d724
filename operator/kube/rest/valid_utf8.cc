#include "operator/kube/rest/valid_utf8.h"

#include <algorithm>
#include <string_view>

namespace lockstep::kube {
namespace {

// Returns the length of the first UTF-8 character in bytes, or 0 if it is invalid.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  // Rejects overlong forms, surrogates and code points above U+10FFFF.
  const int least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const int most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

void ReplaceInvalidUtf8(char* text, std::size_t size) {
  for (std::size_t i = 0; i < size;) {
    const std::size_t length = CharacterLength({text + i, size - i});
    if (length == 0) text[i] = '?';
    i += std::max<std::size_t>(length, 1);
  }
}

}  // namespace lockstep::kube
