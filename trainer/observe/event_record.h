// Encodes TensorBoard event files. Records are framed as TFRecord: u64 length, masked CRC-32C of
// the length, data, masked CRC-32C of the data, all little-endian (tensorflow/core/lib/io/
// record_writer.h). Data is an Event protobuf (tensorflow/core/util/event.proto) with only these
// fields: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7; in the summary,
// value = 1 with tag = 1 and simple_value = 2; in the session log, status = 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::train {

// Returns a file's first event. `wall_time`: Unix seconds.
std::string EncodeVersionEvent(double wall_time);
// The run begins, or goes on, with `step`: readers drop what they have of it and of later steps.
std::string EncodeStartEvent(double wall_time, std::int64_t step);
std::string EncodeScalarEvent(double wall_time, std::int64_t step, std::string_view tag,
                              float value);

std::string FrameRecord(std::string_view data);

}  // namespace lockstep::train
