#include "operator/cli/ui/local_log.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/folder_entries.h"
#include "base/new_file.h"
#include "base/rfc3339.h"
#include "base/written_at.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFirstOfFile = std::size_t{256} << 10U;  // bytes of a log, from its end
constexpr std::size_t kMostOfFile = std::size_t{1} << 20U;
constexpr Duration kBetweenParts = std::chrono::seconds(10);

// Returns the newest log of each container by its name, which is empty if the pod has only one.
// Log files are called <start>.log or <start>-<container>.log.
std::map<std::string, fs::path> NewestLogs(const fs::path& folder) {
  std::map<std::string, std::pair<int, fs::path>> newest;
  for (const fs::path& log : PathsIn(folder)) {
    if (log.extension() != ".log") continue;
    const std::string name = log.stem().string();
    const std::size_t dash = std::min(name.find('-'), name.size());
    const std::string container = name.substr(std::min(dash + 1, name.size()));
    auto& [start, path] = newest.try_emplace(container, -1, fs::path()).first->second;
    const int found = std::atoi(name.c_str());
    if (found > start) std::tie(start, path) = std::pair(found, log);
  }
  std::map<std::string, fs::path> paths;
  for (auto& [container, found] : newest) paths[container] = std::move(found.second);
  return paths;
}

// The time that the bundled trainer writes into each line; nullopt for other programs' lines.
std::optional<Time> TimeOf(std::string_view line) {
  constexpr std::string_view kStart = R"({"time":")";
  if (!line.starts_with(kStart)) return std::nullopt;
  line.remove_prefix(kStart.size());
  return ParseRfc3339(line.substr(0, line.find('"')));
}

// A container's newest log file.
class FileTail {
 public:
  void Read(const fs::path& newest, const std::string& who, std::vector<LogLine>& lines) {
    Descriptor found = OpenOwnToRead(newest.string());
    if (found.fd() >= 0 && !IsSame(found)) {
      ReadOn(who, lines);  // by what the one before ended
      if (!line_.empty()) lines.push_back({written_, who, std::exchange(line_, {})});
      file_ = std::move(found);
      at_ = 0;
    }
    ReadOn(who, lines);
  }

 private:
  // Not by the path: a folder may have been removed and made again.
  bool IsSame(const Descriptor& found) const {
    struct stat one{}, other{};
    return ::fstat(file_.fd(), &one) == 0 && ::fstat(found.fd(), &other) == 0 &&
           std::tie(one.st_dev, one.st_ino) == std::tie(other.st_dev, other.st_ino);
  }

  void ReadOn(const std::string& who, std::vector<LogLine>& lines) {
    struct stat status{};
    if (file_.fd() < 0 || ::fstat(file_.fd(), &status) != 0) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    // Skips to the newest lines. Otherwise a log that grows faster than it is read would be shown
    // later and later.
    const bool skips =
        size < at_ || size - at_ > (std::exchange(is_first_, false) ? kFirstOfFile : kMostOfFile);
    if (skips) {
      at_ = size - std::min(size, kFirstOfFile);
      line_.clear();
    }
    const bool is_within_line = skips && at_ > 0;
    std::string text(std::min(kMostOfFile, size - at_), '\0');
    const ssize_t got =
        ::pread(file_.fd(), text.data(), text.size(), static_cast<std::int64_t>(at_));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    at_ += text.size();
    if (is_within_line) text.erase(0, text.find('\n') + 1);  // npos + 1 is 0
    written_ = WrittenAt(status);
    Split(text, who, lines);
  }

  void Split(const std::string& text, const std::string& who, std::vector<LogLine>& lines) {
    const std::size_t first = lines.size();
    bool has_time = false;
    Time time = written_;
    line_ += text;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      std::string line = line_.substr(begin, end - begin);
      if (const auto found = TimeOf(line)) {
        time = *found;
        // What was written before this line is not later.
        for (std::size_t i = first; i < lines.size() && !has_time; ++i) lines[i].time = time;
        has_time = true;
      }
      lines.push_back({time, who, std::move(line)});
    }
    line_.erase(0, begin);
    if (line_.size() > kMostOfFile || IsPartDue(begin > 0)) {
      lines.push_back({time, who, std::exchange(line_, {})});
    }
  }

  // Returns true if the line that has not ended is to be shown as it is: one that is redrawn, if
  // none has ended since the reading before; or what a program wrote last, long ago. What is half a
  // line otherwise will be a whole one.
  bool IsPartDue(bool has_ended) {
    if (!line_.empty() && written_ + kBetweenParts <= std::chrono::system_clock::now()) return true;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (has_ended || line_.find('\r') == std::string::npos) {
      next_part_.reset();
    } else if (!next_part_) {
      next_part_ = now;
    } else if (now >= *next_part_) {
      next_part_ = now + kBetweenParts;
      return true;
    }
    return false;
  }

  Descriptor file_;  // stays open, so that no other file gets its number
  bool is_first_ = true;
  std::size_t at_ = 0;
  Time written_;      // when the file was, at the reading
  std::string line_;  // the beginning of one
  std::optional<SteadyTime> next_part_;
};

// "worker-0" of the pod "mnist-worker-0": no role's name has a dash.
std::string ReplicaOf(const std::string& pod) {
  const std::size_t index = pod.rfind('-');
  const std::size_t role =
      index == 0 || index == std::string::npos ? index : pod.rfind('-', index - 1);
  return role == std::string::npos ? pod : pod.substr(role + 1);
}

class LocalLogTail final : public LogTail {
 public:
  LocalLogTail(std::string run, std::string replica, std::function<bool()> is_run)
      : run_(std::move(run)), replica_(std::move(replica)), is_run_(std::move(is_run)) {}

  absl::Status Read(std::vector<LogLine>& lines) override {
    bool found = false;
    if (!is_run_()) return absl::NotFoundError("there is no log");
    for (const fs::path& pod : PathsIn(run_ + "/logs")) {
      const std::string replica = ReplicaOf(pod.filename().string());
      if (!replica_.empty() && replica != replica_) continue;
      found = true;
      for (const auto& [container, path] : NewestLogs(pod)) {
        const std::string who =
            container.empty() ? replica : fmt::format("{} {}", replica, container);
        files_[who].Read(path, who, lines);
      }
    }
    return found ? absl::OkStatus() : absl::NotFoundError("there is no log");
  }

 private:
  const std::string run_, replica_;
  const std::function<bool()> is_run_;
  std::map<std::string, FileTail> files_;  // by replica and container
};

}  // namespace

std::unique_ptr<LogTail> MakeLocalLogTail(const std::string& run, const std::string& replica,
                                          std::function<bool()> is_run) {
  return std::make_unique<LocalLogTail>(run, replica, std::move(is_run));
}

}  // namespace lockstep::cli
