#include "operator/controller/parallel.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <vector>

namespace lockstep::controller {

absl::Status ForEach(std::size_t count, std::size_t threads,
                     const std::function<absl::Status(std::size_t)>& work) {
  std::vector<absl::Status> results(count);
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) results[i] = work(i);
  };
  std::vector<std::future<void>> helpers;
  for (std::size_t i = 1; i < std::min(count, threads); ++i) {
    helpers.push_back(std::async(std::launch::async, run));
  }
  run();  // if it throws, the futures' destructors wait
  for (std::future<void>& helper : helpers) helper.get();
  for (absl::Status& result : results) {
    if (!result.ok()) return std::move(result);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::controller
