// Runs the `lockstep` program in a test's own folder.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"

namespace lockstep::testing {

struct Ended {
  int code = 0;  // -signal if a signal ended it
  std::string out, err;
  nlohmann::json Report() const;  // the object that --output json prints at the end
};

class Program {
 public:
  // Starts `lockstep ARGS` in `folder`. Its process calls `prepare` before it executes the program.
  Program(
      const std::string& folder, const std::vector<std::string>& args,
      const std::function<void()>& prepare = [] {});
  ~Program();  // kills the program if it is still running
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void Signal(int signal) const;
  Ended Wait();
  pid_t pid() const { return pid_; }

 private:
  TempDirectory output_;
  pid_t pid_ = -1;
};

Ended RunProgram(const std::string& folder, const std::vector<std::string>& args);

// Returns a job of shell scripts: every worker runs `script`. Worker pods have an emptyDir at
// /scratch.
std::string ShellJob(const std::string& name, int workers, const std::string& script);

}  // namespace lockstep::testing
