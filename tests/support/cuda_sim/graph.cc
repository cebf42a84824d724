#include "tests/support/cuda_sim/graph.h"

#include <queue>
#include <utility>

namespace cuda_sim {

std::size_t Graph::Add(std::function<void()> work, Nodes after) {
  nodes_.push_back({.work = std::move(work), .after = std::move(after)});
  return nodes_.size() - 1;
}

Graph::Nodes Graph::WithAllBefore(const Nodes& nodes) const {
  Nodes found = nodes;
  // What runs before a node has a lower number.
  for (std::size_t node = nodes_.size(); node-- > 0;) {
    if (found.contains(node)) found.insert(nodes_[node].after.begin(), nodes_[node].after.end());
  }
  return found;
}

void Graph::Run(const std::function<bool()>& may_go_on) const {
  std::vector<std::size_t> awaited(nodes_.size());
  std::vector<std::vector<std::size_t>> followers(nodes_.size());
  std::priority_queue<std::size_t> ready;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    awaited[node] = nodes_[node].after.size();
    if (awaited[node] == 0) ready.push(node);
    for (const std::size_t before : nodes_[node].after) followers[before].push_back(node);
  }
  while (!ready.empty() && may_go_on()) {
    const std::size_t node = ready.top();
    ready.pop();
    nodes_[node].work();
    for (const std::size_t follower : followers[node]) {
      if (--awaited[follower] == 0) ready.push(follower);
    }
  }
}

}  // namespace cuda_sim
