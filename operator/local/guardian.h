// A small process that outlives this program if it is killed, and then kills what its pods left.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep::local {

// The kernel kills the processes that we started together with us, but not those that they started.
class Guardian {
 public:
  // Forks, so it is made before any thread. Marks of this program's processes begin with `mark`.
  explicit Guardian(const std::string& mark);
  ~Guardian();  // ends it: from here on nothing is left to guard
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;  // closed by our death
};

// A mark for the processes of this program, unlike that of any other.
std::string MarkOfThisRun();

}  // namespace lockstep::local
