#include "trainer/data/formats/wire_format.h"

namespace lockstep::train {

bool TakeVarint(std::span<const std::uint8_t>& bytes, std::uint64_t& value) {
  value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    value |= std::uint64_t{bytes[i] & 0x7Fu} << (7 * i);
    if (bytes[i] < 0x80) {
      bytes = bytes.subspan(i + 1);
      return true;
    }
  }
  return false;
}

bool WireReader::Take(std::size_t count) {
  if (count > rest_.size()) return Fail();
  bytes_ = rest_.first(count);
  rest_ = rest_.subspan(count);
  return true;
}

bool WireReader::Next() {
  if (failed_ || rest_.empty()) return false;
  std::uint64_t tag = 0;
  if (!TakeVarint(rest_, tag)) return Fail();
  number_ = tag >> 3;
  if (number_ == 0) return Fail();
  type_ = static_cast<Type>(tag & 7);
  switch (type_) {
    case Type::kVarint:
      return TakeVarint(rest_, varint_) || Fail();
    case Type::kFixed64:
      return Take(8);
    case Type::kFixed32:
      return Take(4);
    case Type::kBytes: {
      std::uint64_t length = 0;
      return TakeVarint(rest_, length) ? Take(static_cast<std::size_t>(length)) : Fail();
    }
  }
  return Fail();  // a group, which no message of proto3 has, or no type at all
}

}  // namespace lockstep::train
