// Makes untrusted text safe to print on a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Replaces each control character except line feeds and tabs with '?': text from pods, webhooks and
// users must not move the cursor, clear the screen, set the window's title or reorder letters.
// Keeps UTF-8, except its own controls (U+0080 to U+009F) and those that set the direction of text
// (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
inline std::string Printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) text[i] = '?';
    const std::string_view next = std::string_view(text).substr(i, 3);
    const std::string_view two = next.substr(0, 2);
    if ((two >= "\u0080" && two <= "\u009F") || two == "\u061C") text.replace(i, 2, "?");
    const bool turns = (next >= "\u202A" && next <= "\u202E") ||
                       (next >= "\u2066" && next <= "\u2069") || next == "\u200E" ||
                       next == "\u200F";
    if (turns) text.replace(i, 3, "?");
  }
  return text;
}

}  // namespace lockstep
