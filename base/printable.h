// Makes untrusted text safe to print on a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Returns the number of bytes of the character that `text` begins with if it is one that a terminal
// obeys instead of showing it, else 0: a control character (up to U+001F, U+007F, U+0080 to U+009F)
// except line feeds and tabs, or one that sets the direction of text (U+061C, U+200E, U+200F,
// U+202A to U+202E, U+2066 to U+2069).
inline std::size_t ControlLength(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = static_cast<unsigned char>(text[0]);
  if (byte < 0x80) return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F ? 1 : 0;
  const std::string_view two = text.substr(0, 2), three = text.substr(0, 3);
  if ((two >= "\u0080" && two <= "\u009F") || two == "\u061C") return 2;
  const bool turns = (three >= "\u202A" && three <= "\u202E") ||
                     (three >= "\u2066" && three <= "\u2069") || three == "\u200E" ||
                     three == "\u200F";
  return turns ? 3 : 0;
}

// Replaces each such character with '?': text from pods, webhooks and users must not move the
// cursor, clear the screen, set the window's title or reorder letters. Keeps other UTF-8.
inline std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t control = ControlLength(text.substr(i));
    out += control > 0 ? '?' : text[i];
    i += control > 0 ? control : 1;
  }
  return out;
}

}  // namespace lockstep
