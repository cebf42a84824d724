#include "operator/local/logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "api/v1/variants.h"
#include "base/folder_entries.h"
#include "base/new_file.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

// Messages become JSON, which must be UTF-8.
std::string AsUtf8(const std::string& text) {
  const std::string clean =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(clean).get<std::string>();
}

}  // namespace

std::string NextLogPath(const std::string& folder, const std::string& pod,
                        const std::string& container) {
  const fs::path of_pod = fs::path(folder) / pod;
  std::error_code error;  // if this fails, starting the process reports it
  fs::create_directories(of_pod, error);
  const std::string ending = container.empty() ? ".log" : fmt::format("-{}.log", container);
  int next = 0;
  for (const fs::path& log : PathsIn(of_pod)) {
    const std::string name = log.filename().string();
    int attempt = 0;
    const auto [rest, fault] = std::from_chars(name.data(), name.data() + name.size(), attempt);
    if (fault == std::errc() &&
        name.substr(static_cast<std::size_t>(rest - name.data())) == ending) {
      next = std::max(next, attempt + 1);
    }
  }
  return (of_pod / fmt::format("{}{}", next, ending)).string();
}

std::string LastLines(const std::string& path, std::size_t bytes) {
  std::string text = ReadOwn(path, bytes + 1);
  // Drops a partial line, or the end of the line before; npos + 1 is 0.
  if (text.size() > bytes) text.erase(0, text.find('\n') + 1);
  return AsUtf8(text);
}

std::string TakeMessage(const std::string& path) {
  const std::string text = ReadOwn(path, api::kTerminationMessageBytes);
  std::error_code error;
  fs::remove(path, error);  // most containers write none
  return AsUtf8(text);
}

}  // namespace lockstep::local
