// Tells which part of a file is in memory.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/data/file_bytes.h"

namespace lockstep::train {

// The share of the file's pages that are in memory.
inline double ShareInMemory(const std::string& path) {
  const auto file = FileBytes::OpenWhole(path);
  if (!file.ok() || file->bytes().empty()) return 0;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((file->bytes().size() + page - 1) / page);
  ::mincore(const_cast<std::uint8_t*>(file->bytes().data()), file->bytes().size(), pages.data());
  const auto resident = std::ranges::count_if(pages, [](unsigned char c) { return (c & 1) != 0; });
  return static_cast<double>(resident) / static_cast<double>(pages.size());
}

// Returns false if the file system keeps files in memory.
inline bool DropFromMemory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  return ShareInMemory(path) < 0.01;
}

}  // namespace lockstep::train
