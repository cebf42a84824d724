// Where libprotobuf's own log lines go.
#pragma once

namespace lockstep::proto {

// Routes libprotobuf's log lines to our log for the rest of the process's life: at debug level,
// because a stranger can cause one for each message that is not valid UTF-8; a fatal one, after
// which the process ends, as an error. Idempotent. Thread-safe.
void RouteProtobufLog();

}  // namespace lockstep::proto
