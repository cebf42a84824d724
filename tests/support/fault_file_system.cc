#include "tests/support/fault_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

std::vector<std::string> PathParts(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

absl::Status NoSuch(const std::string& path) {
  return absl::NotFoundError(fmt::format("{}: no such file or folder", path));
}
absl::Status Crashed(const std::string& path) {
  return absl::UnavailableError(fmt::format("{}: the power is gone", path));
}
absl::Status BadDisk(const std::string& path) {
  return absl::UnavailableError(fmt::format("{}: input/output error", path));
}
absl::Status Full(const std::string& path) {
  return absl::ResourceExhaustedError(fmt::format("{}: no space left on device", path));
}

}  // namespace

FaultFileSystem::FaultFileSystem() : root_(std::make_shared<Node>()) {
  root_->is_folder = true;
}

absl::StatusOr<FileSystem::Kind> FaultFileSystem::KindOf(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (crashed_) return Crashed(path);
  if (NextReadFails()) return BadDisk(path);
  const NodePtr node = Find(path);
  if (node == nullptr) return Kind::kNothing;
  return node->is_folder ? Kind::kFolder : Kind::kFile;
}

absl::Status FaultFileSystem::CreateDirectories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Fault fault = NextFault();
  if (crashed_ && fault != Fault::kCrash) return Crashed(path);
  if (fault == Fault::kFull) return Full(path);
  Node* folder = root_.get();
  for (const std::string& part : PathParts(path)) {
    NodePtr& child = folder->now[part];
    if (child == nullptr) {
      child = std::make_shared<Node>();
      child->is_folder = true;
      if (fault == Fault::kCrash) return Crashed(path);
    }
    folder->durable[part] = child;
    folder = child.get();
  }
  return fault == Fault::kCrash ? Crashed(path) : absl::OkStatus();
}

absl::Status FaultFileSystem::CreateDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Fault fault = NextFault();
  if (crashed_ && fault != Fault::kCrash) return Crashed(path);
  if (fault == Fault::kFull) return Full(path);
  const NodePtr parent = FindParent(path);
  if (parent == nullptr) return NoSuch(path);
  NodePtr& child = parent->now[PathParts(path).back()];
  if (child != nullptr) return absl::AlreadyExistsError(fmt::format("{}: is there", path));
  child = std::make_shared<Node>();
  child->is_folder = true;
  return fault == Fault::kCrash ? Crashed(path) : absl::OkStatus();
}

absl::Status FaultFileSystem::WriteFile(const std::string& path,
                                        const std::vector<std::span<const std::byte>>& pieces) {
  const std::lock_guard lock(mutex_);
  const Fault fault = NextFault();
  if (crashed_ && fault != Fault::kCrash) return Crashed(path);
  const NodePtr parent = FindParent(path);
  if (parent == nullptr) return NoSuch(path);
  if (refuses_renames_ && Find(path) != nullptr) {
    return absl::PermissionDeniedError(fmt::format("{}: cannot remove", path));
  }
  const auto node = std::make_shared<Node>();
  for (const auto piece : pieces) {
    node->content.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  if (fault != Fault::kNone) {
    node->content.resize(Philox(0x57, choices_++, node->content.size())[0] %
                         (node->content.size() + 1));
  }
  NodePtr& child = parent->now[PathParts(path).back()];
  child = nullptr;
  const std::size_t used = BytesOf(*root_);
  const std::size_t room = most_bytes_ - std::min(used, most_bytes_);
  const bool fits = node->content.size() <= room;
  if (!fits) node->content.resize(room);
  child = node;
  if (!fits || fault == Fault::kFull) return Full(path);
  return fault == Fault::kCrash ? Crashed(path) : absl::OkStatus();
}

absl::StatusOr<std::string> FaultFileSystem::ReadFile(const std::string& path, std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  if (crashed_) return Crashed(path);
  if (NextReadFails()) return BadDisk(path);
  const NodePtr node = Find(path);
  if (node == nullptr || node->is_folder) return NoSuch(path);
  if (node->content.size() > most) return TooManyBytes(path, node->content.size(), most);
  return node->content;
}

absl::Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const Fault fault = NextFault();
  if (crashed_ && fault != Fault::kCrash) return Crashed(from);
  const NodePtr node = Find(from), parent = FindParent(to);
  if (node == nullptr || parent == nullptr) return NoSuch(from);
  if (fault == Fault::kFull) return Full(to);
  if (refuses_renames_) return CannotRename(ENOSYS, to);
  parent->now[PathParts(to).back()] = node;
  FindParent(from)->now.erase(PathParts(from).back());
  return fault == Fault::kCrash ? Crashed(from) : absl::OkStatus();
}

absl::Status FaultFileSystem::SyncDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Fault fault = NextFault();
  if (fault == Fault::kCrash || crashed_) return Crashed(path);
  const NodePtr node = Find(path);
  if (node == nullptr || !node->is_folder) return NoSuch(path);
  if (syncs_until_failure_ > 0 && --syncs_until_failure_ == 0) return BadDisk(path);
  node->durable = node->now;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultFileSystem::ListDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (crashed_) return Crashed(path);
  if (NextReadFails()) return BadDisk(path);
  const NodePtr node = Find(path);
  if (node == nullptr) return NoSuch(path);
  if (!node->is_folder) {
    return absl::FailedPreconditionError(fmt::format("{}: not a directory", path));
  }
  std::vector<std::string> names;
  for (const auto& [name, child] : node->now) names.push_back(name);
  return names;
}

absl::Status FaultFileSystem::RemoveRecursively(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Fault fault = NextFault();
  if (crashed_ && fault != Fault::kCrash) return Crashed(path);
  const NodePtr node = Find(path);
  if (node == nullptr) return absl::OkStatus();
  if (fault == Fault::kCrash) {
    // Part of the folder's content is gone already.
    std::erase_if(node->now, [&](const auto&) { return Philox(0x52, choices_++, 0)[0] % 2 == 0; });
    return Crashed(path);
  }
  node->now.clear();
  FindParent(path)->now.erase(PathParts(path).back());
  return absl::OkStatus();
}

int FaultFileSystem::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

void FaultFileSystem::CrashInOperation(int n) {
  const std::lock_guard lock(mutex_);
  crash_at_ = operations_ + n;
}

void FaultFileSystem::FillDiskInOperation(int n, bool stays_full) {
  const std::lock_guard lock(mutex_);
  full_at_ = operations_ + n;
  stays_full_ = stays_full;
}

void FaultFileSystem::LimitBytes(std::size_t most) {
  const std::lock_guard lock(mutex_);
  most_bytes_ = most;
}

void FaultFileSystem::FailInSync(int n) {
  const std::lock_guard lock(mutex_);
  syncs_until_failure_ = n;
}

void FaultFileSystem::FailInRead(int n) {
  const std::lock_guard lock(mutex_);
  fail_read_at_ = reads_ + n;
}

void FaultFileSystem::RefuseRenames() {
  const std::lock_guard lock(mutex_);
  refuses_renames_ = true;
}

int FaultFileSystem::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}

bool FaultFileSystem::NextReadFails() {
  return ++reads_ == fail_read_at_;
}

void FaultFileSystem::Reboot(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  SettleAfterCrash(*root_, seed);
  crash_at_ = full_at_ = fail_read_at_ = syncs_until_failure_ = 0;
  most_bytes_ = std::numeric_limits<std::size_t>::max();
  crashed_ = stays_full_ = refuses_renames_ = false;
  choices_ = 0;
}

std::string& FaultFileSystem::Content(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = Find(path);
  if (node == nullptr) throw std::runtime_error(path + " is not there");
  return node->content;
}

bool FaultFileSystem::Exists(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return Find(path) != nullptr;
}

std::size_t FaultFileSystem::BytesOf(const Node& node) {
  std::size_t bytes = node.content.size();
  for (const auto& [name, child] : node.now) bytes += child ? BytesOf(*child) : 0;
  return bytes;
}

FaultFileSystem::NodePtr FaultFileSystem::Find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& part : PathParts(path)) {
    const auto found = node->now.find(part);
    if (found == node->now.end()) return nullptr;
    node = found->second;
  }
  return node;
}

FaultFileSystem::NodePtr FaultFileSystem::FindParent(const std::string& path) const {
  return Find(path.substr(0, path.rfind('/')));
}

FaultFileSystem::Fault FaultFileSystem::NextFault() {
  ++operations_;
  if (crashed_) return Fault::kNone;
  if (operations_ == crash_at_) {
    crashed_ = true;
    return Fault::kCrash;
  }
  if (full_at_ != 0 && (operations_ == full_at_ || (stays_full_ && operations_ > full_at_))) {
    return Fault::kFull;
  }
  return Fault::kNone;
}

void FaultFileSystem::SettleAfterCrash(Node& folder, std::uint64_t seed) {
  std::map<std::string, NodePtr> names = folder.durable;
  names.insert(folder.now.begin(), folder.now.end());
  std::map<std::string, NodePtr> survived;
  for (const auto& [name, any] : names) {
    const auto now = folder.now.find(name), durable = folder.durable.find(name);
    const bool as_now =
        seed == kKeepAll || (seed != kLoseAll && Philox(seed, choices_++, 0)[0] % 2 == 0);
    const auto& chosen = as_now ? now : durable;
    if (chosen != (as_now ? folder.now : folder.durable).end()) survived[name] = chosen->second;
  }
  folder.now = folder.durable = survived;
  for (const auto& [name, child] : survived) {
    if (child->is_folder) SettleAfterCrash(*child, seed);
  }
}

}  // namespace lockstep::train
