#include "trainer/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "trainer/core/available_memory.h"

namespace lockstep::train {

// Entries are reused and never freed: the handler may read the table at any time, without a lock.
struct Mapping {
  std::atomic<const std::uint8_t*> begin{nullptr};  // null: not in use
  std::size_t size = 0;
  std::string record;  // what to write
  Mapping* next = nullptr;
};

namespace {

std::atomic<Mapping*> g_mappings{nullptr};
struct sigaction g_earlier_handler;

// Makes only async-signal-safe calls.
void OnBusError(int, siginfo_t* info, void*) {
  const auto* const address = static_cast<const std::uint8_t*>(info->si_addr);
  for (const Mapping* mapping = g_mappings; mapping != nullptr; mapping = mapping->next) {
    const std::uint8_t* const begin = mapping->begin;
    if (begin == nullptr || address < begin || address >= begin + mapping->size) continue;
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, mapping->record.data(), mapping->record.size());
    ::_exit(api::kExitPeerLost);
  }
  ::sigaction(SIGBUS, &g_earlier_handler,
              nullptr);  // a fault is repeated after this, a signal is not
  if (info->si_code <= 0) ::raise(SIGBUS);
}

void InstallHandler() {
  struct sigaction action{};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &g_earlier_handler);
}

std::string RecordOf(const std::string& path) {
  const nlohmann::ordered_json record = {
      {"level", "error"},
      {"message", fmt::format("{}: cannot read its mapped content: the file has been cut short, or "
                              "an I/O error has occurred",
                              path)},
      {"exitCode", api::kExitPeerLost}};
  return record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Mapping& AddMapping(std::span<const std::uint8_t> bytes, const std::string& path) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static std::once_flag installed;
  std::call_once(installed, InstallHandler);
  Mapping* mapping = g_mappings;
  while (mapping != nullptr && mapping->begin != nullptr) mapping = mapping->next;
  const bool is_new = mapping == nullptr;
  if (is_new) mapping = new Mapping;
  mapping->size = bytes.size();
  mapping->record = RecordOf(path);
  mapping->begin = bytes.data();  // last: from here on the handler reads the entry
  if (is_new) {
    mapping->next = g_mappings;
    g_mappings = mapping;
  }
  return *mapping;
}

// What madvise(MADV_WILLNEED) reads is limited to one request of the disk, and of a mapping that is
// read in another order than the file's the kernel reads little ahead. Errors are left to whoever
// needs the bytes.
void ReadThrough(const std::stop_token& stop, const std::string& path, std::size_t size,
                 std::span<std::uint8_t> chunk) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  for (std::size_t at = 0; at < size && !stop.stop_requested();) {
    const ssize_t got = ::pread(file.fd(), chunk.data(), chunk.size(), static_cast<off_t>(at));
    if (got <= 0) return;
    at += static_cast<std::size_t>(got);
  }
}

}  // namespace

std::unique_ptr<MappedFile> MappedFile::Map(int fd, std::size_t size, const std::string& path) {
  void* const begin = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (begin == MAP_FAILED) return nullptr;
  const std::span<const std::uint8_t> bytes(static_cast<const std::uint8_t*>(begin), size);
  return std::unique_ptr<MappedFile>(new MappedFile(bytes, AddMapping(bytes, path), path));
}

MappedFile::~MappedFile() {
  reader_.request_stop();
  mapping_.begin = nullptr;
  ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

void MappedFile::ExpectScatteredReads(bool scattered) const {
  // Only a hint.
  ::madvise(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size(),
            scattered ? MADV_RANDOM : MADV_NORMAL);
}

void MappedFile::Prefetch() {
  if (std::exchange(was_asked_, true)) return;
  if (bytes_.size() > MemoryLimit() / 2) {
    LogInfo("a data file is not read ahead: it takes more than half of the memory",
            {{"file", path_}, {"bytes", bytes_.size()}});
    return;
  }
  try {
    // Here, because an exception in the thread would end the process.
    std::vector<std::uint8_t> chunk(std::size_t{1} << 20);
    // Not joined: a read from a volume that hangs must not hold the end of the process.
    std::thread([stop = reader_.get_token(), path = path_, size = bytes_.size(),
                 chunk = std::move(chunk)]() mutable {
      ReadThrough(stop, path, size, chunk);
    }).detach();
  } catch (const std::exception& error) {
    LogInfo("a data file is not read ahead", {{"file", path_}, {"reason", error.what()}});
  }
}

}  // namespace lockstep::train
