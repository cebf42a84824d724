// A small process that outlives this program if it is killed, and then kills what its pods left and
// removes its links.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/descriptor.h"

namespace lockstep::local {

// The kernel kills the processes that we started when we die, but not their descendants.
class Guardian {
 public:
  // Forks, so create it before any thread. `mark` is the common prefix of this program's marks,
  // `links` the folder of its links: see LinksFolder.
  Guardian(const std::string& mark, const std::string& links);
  ~Guardian();  // ends the guardian process; no process may be left
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

 private:
  pid_t pid_ = -1;
  Descriptor guardian_;  // a socket, closed when this process dies
};

// Returns a mark for the processes of this program that is unique to this run.
std::string MarkOfThisRun();

}  // namespace lockstep::local
