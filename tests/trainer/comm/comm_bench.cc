// Times all-reduce between processes of this host, one core each: shm against gloo, one JSON line
// a case. Not a test: run build/release/bin/comm_bench [ranks].
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "tests/support/shared_memory.h"
#include "tests/support/spawn_ranks.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/make_communicator.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kFloats = 3'274'634;  // core-cnn's parameters: 13.1 MB

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void BindToCore(int rank) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(rank % cores), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

int RunRank(int rank, int size, bool shm, KeyValueStore& store) {
  SetLogLevel(LogLevel::kError);
  BindToCore(rank);
  auto buffer = GradientBuffer::Create(kFloats);
  if (!buffer.ok()) return 1;
  CommunicatorOptions options;
  options.rank = rank;
  options.size = size;
  options.bind_address = "127.0.0.1";
  options.allow_shm = shm;
  auto communicator = MakeCommunicator(options, store, **buffer);
  if (!communicator.ok()) return 2;
  for (const auto& [floats, rounds] : {std::pair<std::size_t, int>{1024, 500}, {kFloats, 50}}) {
    const std::span<float> data((*buffer)->data(), floats);
    double start = 0, cpu_start = 0;
    for (int round = -5; round < rounds; ++round) {
      if (round == 0) start = Seconds(), cpu_start = CpuSeconds();
      if (!(*communicator)->AllReduceSum(data).ok()) return 3;
    }
    const double each = (Seconds() - start) / rounds, cpu = (CpuSeconds() - cpu_start) / rounds;
    if (rank == 0)
      fmt::print(
          "{{\"communicator\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"ms\": {:.3f}, "
          "\"cpu_ms\": {:.3f}, \"gb_per_s\": {:.2f}}}\n",
          (*communicator)->Name(), size, data.size_bytes(), 1e3 * each, 1e3 * cpu,
          1e-9 * static_cast<double>(data.size_bytes()) / each);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::train

int main(int argc, char** argv) {
  using namespace lockstep::train;
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  int failures = 0;
  for (const bool shm : {true, false}) {
    ForkedStore store;
    ForkedRanks ranks(size, [&](int rank) { return RunRank(rank, size, shm, store); });
    for (int rank = 0; rank < size; ++rank) failures += ranks.Wait(rank) != 0 ? 1 : 0;
  }
  return failures;
}
