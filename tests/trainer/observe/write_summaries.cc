// write_summaries DIRECTORY: 100 steps of two scalars, as tensorboard_peer.py expects them.
#include <cstdio>

#include "trainer/observe/summaries.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto writer = lockstep::train::SummaryWriter::Open(argv[1]);
  if (!writer.ok()) {
    std::fprintf(stderr, "%s\n", writer.status().ToString().c_str());
    return 1;
  }
  for (int step = 0; step < 100; ++step) {
    (*writer)->Scalar("train/loss", 2.0 / (step + 1), step);
    (*writer)->Scalar("train/accuracy", step / 100.0, step * std::int64_t{1000000000});
  }
  return (*writer)->Flush().ok() ? 0 : 1;
}
