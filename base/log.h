// Logs one JSON object per line to stderr: {"time":…,"level":…,"message":…, fields…}. Thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Sets the lowest level that is logged. The default is kInfo.
void SetLogLevel(LogLevel level);

void Log(LogLevel level, std::string_view message, const nlohmann::json& fields = {});

inline void LogInfo(std::string_view message, const nlohmann::json& fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, const nlohmann::json& fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, const nlohmann::json& fields = {}) {
  Log(LogLevel::kError, message, fields);
}

}  // namespace lockstep
