#include "api/proto/protobuf_log.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <mutex>
#include <string>

#include "base/log.h"

namespace lockstep::proto {
namespace {

void LogFromProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                     const std::string& message) {
  const bool is_fatal = level >= google::protobuf::LOGLEVEL_FATAL;
  Log(is_fatal ? LogLevel::kError : LogLevel::kDebug, fmt::format("protobuf: {}", message),
      {{"source", fmt::format("{}:{}", file, line)}});
}

}  // namespace

void RouteProtobufLog() {
  static std::once_flag once;
  std::call_once(once, [] { google::protobuf::SetLogHandler(&LogFromProtobuf); });
}

}  // namespace lockstep::proto
