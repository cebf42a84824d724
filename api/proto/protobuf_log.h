// Where libprotobuf's own log lines go.
#pragma once

namespace lockstep::proto {

// Routes libprotobuf's log lines to our log for the rest of the process's life. A fatal line, after
// which libprotobuf ends the process, becomes an error. All others are logged at debug level,
// because anyone who can send messages can cause one line with each text that is not valid UTF-8.
// Idempotent. Thread-safe.
void RouteProtobufLog();

}  // namespace lockstep::proto
