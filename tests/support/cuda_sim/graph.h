// A graph of work: what streams add to it while they are captured.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <vector>

namespace cuda_sim {

// Nodes are numbers that ascend from 0. Not thread-safe, but several threads may Run it.
class Graph {
 public:
  using Nodes = std::set<std::size_t>;

  // Adds work that runs after those nodes.
  std::size_t Add(std::function<void()> work, Nodes after);
  // `nodes` and all that run before one of them.
  Nodes WithAllBefore(const Nodes& nodes) const;
  // Runs all work on the calling thread. Of the nodes whose predecessors are done, the one that was
  // added last runs first: where an edge is missing, this is not the order of the calls. Ends once
  // `may_go_on` is false.
  void Run(const std::function<bool()>& may_go_on) const;

 private:
  struct Node {
    std::function<void()> work;
    Nodes after;
  };
  std::vector<Node> nodes_;
};

}  // namespace cuda_sim
