#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>

#include <fmt/format.h>

namespace lockstep {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

struct Context {
  std::mutex mutex;
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
};

// Never destroyed: records may be written while the process is exiting.
Context& GlobalContext() {
  static auto* context = new Context;
  return *context;
}

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

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(millis / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     millis % 1000);
}

}  // namespace

void SetLogLevel(LogLevel level) {
  g_level = level;
}

void SetLogContext(const nlohmann::json& fields) {
  Context& context = GlobalContext();
  const std::lock_guard lock(context.mutex);
  context.fields = nlohmann::ordered_json::object();
  for (const auto& [key, value] : fields.items()) context.fields[key] = value;
}

void Log(LogLevel level, std::string_view message, const nlohmann::json& fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  nlohmann::ordered_json record;
  record["time"] = Timestamp();
  record["level"] = LevelName(level);
  record["message"] = message;
  {
    Context& context = GlobalContext();
    const std::lock_guard lock(context.mutex);
    for (const auto& [key, value] : context.fields.items()) record[key] = value;
  }
  for (const auto& [key, value] : fields.items()) record[key] = value;
  // One write per record keeps lines whole when several processes share a pipe. Invalid UTF-8 in
  // text from outside is replaced instead of throwing.
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
