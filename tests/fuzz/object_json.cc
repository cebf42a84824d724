// The API server's JSON, beside another library that reads it.
#include "operator/kube/rest/object_json.h"

#include <algorithm>

#include "tests/fuzz/fuzz.h"

using lockstep::kube::Object;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const auto read = lockstep::kube::ParseObject(text);
  const Object other = Object::parse(text, nullptr, /*allow_exceptions=*/false);
  // The other refuses what is no UTF-8, of which every byte has its highest bit set.
  const bool may_be_garbled = other.is_discarded() && std::ranges::any_of(text, [](char byte) {
                                return static_cast<unsigned char>(byte) >= 0x80;
                              });
  if (read.ok() && may_be_garbled) return 0;
  if (read.ok()) {
    // What is left out of metadata is not looked at.
    if (read->dump().find("\"metadata\"") != std::string::npos) return 0;
    lockstep::fuzz::Require(*read == other, "both read the same");
    return 0;
  }
  const bool is_deep = read.status().message().find("deeper") != absl::string_view::npos;
  // The other passes over a byte order mark, and takes a zero byte for the end.
  const bool is_lenient = text.starts_with("\xef\xbb\xbf") || text.find('\0') != std::string::npos;
  lockstep::fuzz::Require(is_deep || is_lenient || !other.is_structured(), "both refuse the same");
  return 0;
}
