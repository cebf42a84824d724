#include "operator/local/list_snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::local {
namespace {

constexpr std::size_t kMostSnapshots = 64;

}  // namespace

kube::Page ListSnapshots::TakePage(Snapshot snapshot, int limit) {
  kube::Page page;
  page.resource_version = fmt::format("{}", snapshot.version);
  while (!snapshot.rest.empty() &&
         (limit <= 0 || page.items.size() < static_cast<std::size_t>(limit))) {
    page.items.push_back(*snapshot.rest.front());
    snapshot.rest.pop_front();
  }
  if (snapshot.rest.empty()) return page;
  page.continue_token = fmt::format("list-{}", ++last_token_);
  kept_.push_back({page.continue_token, std::move(snapshot)});
  if (kept_.size() > kMostSnapshots) kept_.pop_front();
  return page;
}

std::optional<kube::Page> ListSnapshots::NextPage(const std::string& token, int limit) {
  const auto it = std::ranges::find(kept_, token, &Kept::token);
  if (it == kept_.end()) return std::nullopt;
  Snapshot snapshot = std::move(it->snapshot);
  kept_.erase(it);
  return TakePage(std::move(snapshot), limit);
}

}  // namespace lockstep::local
