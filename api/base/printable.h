// Other people's text on a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

// The text with a '?' for each control character but line feeds and tabs: what pods, webhooks and
// users write must not move the cursor, clear the screen or name the window. UTF-8 stays as it is,
// but for its own controls (U+0080 to U+009F).
inline std::string Printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) text[i] = '?';
    const bool starts_control = byte == 0xC2 && i + 1 < text.size() &&
                                static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                                static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (starts_control) text.replace(i, 2, "?");
  }
  return text;
}

}  // namespace lockstep
