// TensorBoard's event files, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/observe/event_record.h"

namespace lockstep::train {

inline std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  return paths;
}

// Returns the payloads of a TFRecord file. A record that is not whole fails the test.
inline std::vector<std::string> Records(const std::string& bytes) {
  std::vector<std::string> records;
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    std::uint64_t length = 0;
    EXPECT_LE(offset + 12, bytes.size());
    if (offset + 12 > bytes.size()) break;
    std::memcpy(&length, bytes.data() + offset, 8);
    EXPECT_LE(offset + 16 + length, bytes.size());
    if (offset + 16 + length > bytes.size()) break;
    records.push_back(bytes.substr(offset + 12, length));
    EXPECT_EQ(bytes.substr(offset, 16 + length), FrameRecord(records.back()));
    offset += 16 + length;
  }
  return records;
}

// Returns the step of an event: a varint after the nine bytes of wall_time.
inline std::uint64_t StepOf(const std::string& event) {
  std::uint64_t step = 0;
  for (std::size_t i = 10, shift = 0; i < event.size(); ++i, shift += 7) {
    step |= (static_cast<std::uint64_t>(event[i]) & 0x7F) << shift;
    if ((event[i] & 0x80) == 0) break;
  }
  return step;
}

}  // namespace lockstep::train
