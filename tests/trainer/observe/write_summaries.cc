// write_summaries DIRECTORY: writes what tensorboard_peer.py expects below DIRECTORY: in `once`,
// 100 steps of two scalars; in `again`, a run that goes back twice, the first time in a new
// process.
#include <cstdio>
#include <memory>
#include <string>

#include "trainer/observe/summaries.h"

namespace {

using lockstep::train::SummaryWriter;

std::unique_ptr<SummaryWriter> Open(const std::string& directory) {
  auto writer = SummaryWriter::Open(directory);
  if (writer.ok()) return *std::move(writer);
  std::fprintf(stderr, "%s\n", writer.status().ToString().c_str());
  return nullptr;
}

bool WriteOnce(const std::string& directory) {
  const auto writer = Open(directory);
  if (writer == nullptr) return false;
  writer->Begin(0);
  for (int step = 0; step < 100; ++step) {
    writer->Scalar("train/loss", 2.0 / (step + 1), step);
    writer->Scalar("train/accuracy", step / 100.0, step * std::int64_t{1000000000});
  }
  return writer->Flush().ok();
}

void WriteSteps(SummaryWriter& writer, int first, int last, double loss) {
  writer.Begin(first);
  for (int step = first; step <= last; ++step) writer.Scalar("train/loss", loss, step);
}

bool WriteAgain(const std::string& directory) {
  {
    const auto killed = Open(directory);
    if (killed == nullptr) return false;
    WriteSteps(*killed, 1, 100, 1);
  }
  const auto writer = Open(directory);
  if (writer == nullptr) return false;
  WriteSteps(*writer, 81, 120, 2);
  WriteSteps(*writer, 111, 130, 3);
  return writer->Flush().ok();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string directory = argv[1];
  return WriteOnce(directory + "/once") && WriteAgain(directory + "/again") ? 0 : 1;
}
