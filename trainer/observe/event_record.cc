#include "trainer/observe/event_record.h"

#include <bit>
#include <concepts>

#include "trainer/core/crc32c.h"

namespace lockstep::train {
namespace {

// Protobuf wire types.
enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <std::unsigned_integral Word>
void AppendLittleEndian(std::string& out, Word word) {
  for (std::size_t i = 0; i < sizeof(Word); ++i) out += static_cast<char>((word >> (8 * i)) & 0xFF);
}

void AppendVarint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void AppendTag(std::string& out, std::uint64_t field, Wire wire) {
  AppendVarint(out, (field << 3) | static_cast<std::uint64_t>(wire));
}

void AppendBytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  AppendTag(out, field, Wire::kBytes);
  AppendVarint(out, bytes.size());
  out += bytes;
}

void AppendDouble(std::string& out, std::uint64_t field, double value) {
  AppendTag(out, field, Wire::kFixed64);
  AppendLittleEndian(out, std::bit_cast<std::uint64_t>(value));
}

void AppendFloat(std::string& out, std::uint64_t field, float value) {
  AppendTag(out, field, Wire::kFixed32);
  AppendLittleEndian(out, std::bit_cast<std::uint32_t>(value));
}

std::string EventOfStep(double wall_time, std::int64_t step) {
  std::string event;
  AppendDouble(event, 1, wall_time);
  AppendTag(event, 2, Wire::kVarint);
  AppendVarint(event, static_cast<std::uint64_t>(step));
  return event;
}

// A CRC over data that contains CRCs is weak, so TFRecord rotates it and adds a constant.
std::uint32_t MaskedCrc32c(std::string_view data) {
  return std::rotr(Crc32c(data), 15) + 0xA282EAD8u;
}

}  // namespace

std::string EncodeVersionEvent(double wall_time) {
  std::string event;
  AppendDouble(event, 1, wall_time);
  AppendBytes(event, 3, "brain.Event:2");
  return event;
}

std::string EncodeStartEvent(double wall_time, std::int64_t step) {
  constexpr std::uint64_t kStart = 1;
  std::string log;
  AppendTag(log, 1, Wire::kVarint);
  AppendVarint(log, kStart);
  std::string event = EventOfStep(wall_time, step);
  AppendBytes(event, 7, log);
  return event;
}

std::string EncodeScalarEvent(double wall_time, std::int64_t step, std::string_view tag,
                              float value) {
  std::string scalar;
  AppendBytes(scalar, 1, tag);
  AppendFloat(scalar, 2, value);
  std::string summary;
  AppendBytes(summary, 1, scalar);
  std::string event = EventOfStep(wall_time, step);
  AppendBytes(event, 5, summary);
  return event;
}

std::string FrameRecord(std::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  AppendLittleEndian(record, std::uint64_t{data.size()});
  AppendLittleEndian(record, MaskedCrc32c(record));
  record += data;
  AppendLittleEndian(record, MaskedCrc32c(data));
  return record;
}

}  // namespace lockstep::train
