// A folder in which the calling thread may create, find and remove files, but not list them.
#pragma once

#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tests/support/temp_directory.h"

namespace lockstep {

class UnlistedFolder {
 public:
  UnlistedFolder() {
    if (::chmod(folder_.path().c_str(), 0333) != 0) throw std::runtime_error("cannot chmod");
    if (::geteuid() == 0) ::setfsuid(kNobody);  // root may list every folder
  }
  ~UnlistedFolder() {
    ::setfsuid(::geteuid());
    ::chmod(folder_.path().c_str(), 0700);
  }
  UnlistedFolder(const UnlistedFolder&) = delete;
  UnlistedFolder& operator=(const UnlistedFolder&) = delete;

  // False if this system has no other user, or the folder that temporary files are in is root's.
  bool works() const {
    std::error_code missing, listed;
    const std::filesystem::directory_iterator names(folder_.path(), listed);
    return std::filesystem::exists(folder_.At("."), missing) && listed;
  }
  std::string At(const std::string& name) const { return folder_.At(name); }
  const std::string& path() const { return folder_.path(); }

 private:
  static constexpr unsigned kNobody = 65534;
  const TempDirectory folder_;
};

}  // namespace lockstep
