// How a worker connects to all parameter servers.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "trainer/strategy/parameter_server/shard_group.h"

namespace lockstep::train {
namespace {

// How many servers this connects to at a time. Each takes two threads meanwhile (the pool's and
// CallTimer's), and a container may be allowed few.
constexpr std::size_t kMostMeetings = 16;

// Joins the messages of all errors of `each`. The code is that of the first with the largest
// WeightOf.
absl::Status AllOf(const std::vector<absl::Status>& each) {
  absl::Status most;
  std::string text;
  for (const absl::Status& status : each) {
    if (status.ok()) continue;
    if (WeightOf(status) > WeightOf(most)) most = status;
    text += (text.empty() ? "" : "; ") + std::string(status.message());
  }
  return {most.code(), text};
}

}  // namespace

absl::Status ShardGroup::ConnectTo(std::size_t server, Duration patience) {
  const std::string& address = options_.servers[server];
  const std::string name = ServerName(static_cast<int>(server), address);
  links_[server].reset();
  auto link = std::make_unique<ShardLink>(name, address);
  Caller caller = options_.caller;
  caller.who.set_server(static_cast<int>(server));
  if (values_ != nullptr) {
    caller.who.set_gradients(options_.gradients);
    caller.who.set_gradient_floats(options_.gradient_floats);
    caller.who.set_values(values_->locator().ToString());
    caller.who.set_value_floats(options_.parameters + options_.states);
  }
  LOCKSTEP_RETURN_IF_ERROR(link->Meet(caller, patience));
  links_[server] = std::move(link);
  return absl::OkStatus();
}

// The servers without a connection, beginning with the one for which there was no time before.
std::vector<std::size_t> ShardGroup::ServersToMeet() const {
  std::vector<std::size_t> servers;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::size_t server = (next_to_meet_ + i) % links_.size();
    if (links_[server] == nullptr || links_[server]->is_broken()) servers.push_back(server);
  }
  return servers;
}

// The address of a server that is gone may belong to a stranger now, or to nobody: such an address
// takes the whole patience. Fewer than kMostMeetings of them hold up neither each other nor the
// servers that are there; with more, the next call begins with the servers for which there was no
// time.
absl::Status ShardGroup::Connect(Duration patience) {
  const std::vector<std::size_t> servers = ServersToMeet();
  if (servers.empty()) return absl::OkStatus();
  const SteadyTime end =
      std::chrono::steady_clock::now() + std::min(patience, options_.caller.patience);
  std::vector<absl::Status> met(servers.size());
  std::atomic<std::size_t> begun = 0;
  const auto meet = [&](std::size_t i) {
    const Duration left = end - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) {
      met[i] = absl::UnavailableError(
          fmt::format("ps {}: found no time to connect to it, because other servers did not answer",
                      servers[i]));
    } else {
      ++begun;
      met[i] = ConnectTo(servers[i], left);
    }
  };
  ThreadPool(kMostMeetings).VisitEach(servers.size(), kMostMeetings, meet);
  if (begun < servers.size()) next_to_meet_ = servers[begun];
  return AllOf(met);
}

}  // namespace lockstep::train
