#include "operator/local/plain_links.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/digest.h"
#include "base/folder_entries.h"
#include "base/status.h"
#include "operator/local/addresses.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// No shell takes letters beyond ASCII for anything else.
bool IsPlain(char c) {
  constexpr std::string_view kMarks = "._/+:@,=%-";
  const auto byte = static_cast<unsigned char>(c);
  return absl::ascii_isalnum(byte) || !absl::ascii_isascii(byte) || kMarks.find(c) != kMarks.npos;
}

// Returns where the last name in the path that is not plain ends; 0 if all are.
std::size_t EndOfLastUnplain(std::string_view path) {
  for (std::size_t end = path.size(); end > 0 && end != path.npos;) {
    const std::size_t slash = path.substr(0, end).rfind('/');
    const std::string_view name = path.substr(slash + 1, end - slash - 1);
    if (HasShellCharacters(name) || !IsUtf8(name)) return end;
    end = slash;
  }
  return 0;
}

}  // namespace

bool HasShellCharacters(std::string_view path) {
  return !std::ranges::all_of(path, IsPlain);
}

bool IsUtf8(std::string_view text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)) == text;
}

absl::StatusOr<std::string> LinksFolder(const std::string& work_dir) {
  struct stat info{};
  if (stat(work_dir.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("cannot look up the work directory {}: {}", work_dir, std::strerror(errno)));
  }
  std::string shared = LockFolder(std::getenv("XDG_RUNTIME_DIR"), std::getenv("HOME"));
  if (HasShellCharacters(shared) || !IsUtf8(shared)) shared = LockFolder(nullptr, nullptr);
  return fmt::format("{}/links-{:x}-{:x}", shared, info.st_dev, info.st_ino);
}

void RemoveLinks(const std::string& folder) {
  // Another user may have put a link to a folder of this user's there.
  const std::string parent = fs::path(folder).parent_path().string();
  if (!IsOwnFolder(parent) || !IsOwnFolder(folder)) return;
  std::error_code ignored;  // then they stay, and lead nobody astray
  for (const fs::path& path : PathsIn(folder)) {
    if (fs::is_symlink(path, ignored)) fs::remove(path, ignored);
  }
  fs::remove(folder, ignored);
}

PlainLinks::PlainLinks(std::string folder) : folder_(std::move(folder)) {
  RemoveLinks(folder_);  // of a run that was killed together with its guardian
}

PlainLinks::~PlainLinks() {
  RemoveLinks(folder_);
}

absl::StatusOr<std::string> PlainLinks::To(const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(MakePrivateFolder(fs::path(folder_).parent_path().string()));
  LOCKSTEP_RETURN_IF_ERROR(MakePrivateFolder(folder_));
  const std::size_t end = EndOfLastUnplain(path);
  const std::string target = path.substr(0, end);
  const std::string link = fmt::format("{}/{:016x}", folder_, Digest(target));
  if (symlink(target.c_str(), link.c_str()) == 0 || errno == EEXIST) {
    std::error_code error;
    const bool is_folder = end == path.size() && fs::is_directory(path, error);
    return link + (is_folder ? "/." : path.substr(end));
  }
  return absl::FailedPreconditionError(
      fmt::format("cannot link {} to {}: {}", link, target, std::strerror(errno)));
}

}  // namespace lockstep::local
