#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>

#include "base/rfc3339.h"

namespace lockstep {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace

void SetLogLevel(LogLevel level) {
  g_level = level;
}

void Log(LogLevel level, std::string_view message, const nlohmann::json& fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  nlohmann::ordered_json record;
  record["time"] = FormatRfc3339(std::chrono::system_clock::now(), 3);
  record["level"] = LevelName(level);
  record["message"] = message;
  for (const auto& [key, value] : fields.items()) record[key] = value;
  // One write per record keeps lines of up to PIPE_BUF (4096) bytes whole when several processes
  // share a pipe; longer ones may be mixed. Invalid UTF-8 in text from outside is replaced instead
  // of throwing.
  const std::string line =
      record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written <= 0) return;  // there is nowhere to report it
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace lockstep
