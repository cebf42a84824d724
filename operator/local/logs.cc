#include "operator/local/logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMessageBytes = 4096;  // the kubelet's limit

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
  for (const fs::directory_entry& entry : fs::directory_iterator(of_pod, error)) {
    const std::string name = entry.path().filename().string();
    int attempt = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), attempt);
    if (fault == std::errc() &&
        name.substr(static_cast<std::size_t>(end - name.data())) == ending) {
      next = std::max(next, attempt + 1);
    }
  }
  return (of_pod / fmt::format("{}{}", next, ending)).string();
}

std::string LastLines(const std::string& path, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::size_t>(file.tellg());
  const bool cut = size > bytes;
  file.seekg(static_cast<std::streamoff>(cut ? size - bytes : 0));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (cut) text.erase(0, text.find('\n') + 1);  // drops a partial line; npos + 1 is 0
  return AsUtf8(text);
}

std::string TakeMessage(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMessageBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::error_code error;
  fs::remove(path, error);  // most containers write none
  return AsUtf8(text);
}

}  // namespace lockstep::local
