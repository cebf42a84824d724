// Reads messages of Protocol Buffers without generated code:
// https://protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::train {

// Goes through the fields of one message. It never reads beyond the bytes and uses no recursion,
// so that any bytes are safe. Not thread-safe.
class WireReader {
 public:
  explicit WireReader(std::span<const std::uint8_t> message) : rest_(message) {}

  // Advances to the next field. Returns false at the end of the message, or if it is malformed.
  bool Next();
  bool failed() const { return failed_; }

  enum class Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  std::uint64_t number() const { return number_; }  // of the current field
  Type type() const { return type_; }
  std::uint64_t varint() const { return varint_; }                // of a kVarint
  std::span<const std::uint8_t> bytes() const { return bytes_; }  // of any other type

 private:
  bool Fail() {
    failed_ = true;
    return false;
  }
  bool Take(std::size_t count);

  std::span<const std::uint8_t> rest_, bytes_;
  std::uint64_t number_ = 0, varint_ = 0;
  Type type_ = Type::kVarint;
  bool failed_ = false;
};

// Takes a varint from the front of `bytes`. Returns false if it does not end within ten bytes.
bool TakeVarint(std::span<const std::uint8_t>& bytes, std::uint64_t& value);

}  // namespace lockstep::train
