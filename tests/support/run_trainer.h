// Runs the trainer's program in a shell.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "tests/support/folders.h"

namespace lockstep::train {

struct Ended {
  int code;  // -1: it was not run, or a signal ended it
  std::string out;
};

// The test must depend on lockstep-trainer. `prefix`: ahead of the command, "env … ".
inline Ended RunTrainer(const std::string& arguments, const std::string& prefix = "") {
  const std::string command = prefix + LOCKSTEP_BINARY_DIR "/lockstep-trainer " + arguments;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::string out;
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe)) {
    out += static_cast<char>(byte);
  }
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

}  // namespace lockstep::train
