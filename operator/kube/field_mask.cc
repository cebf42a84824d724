#include "operator/kube/field_mask.h"

#include <algorithm>

namespace lockstep::kube {

FieldMask::FieldMask(std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths) Add(path);
}

const FieldMask* FieldMask::Below(std::string_view member) const {
  for (const auto& [name, tree] : below_) {  // a handful of entries
    if (name == member) return &tree;
  }
  return nullptr;
}

void FieldMask::Add(std::string_view path) {
  if (path.empty()) {
    is_end_ = true;
    return;
  }
  const std::size_t dot = std::min(path.find('.'), path.size());
  const std::string_view member = path.substr(0, dot);
  const std::string_view rest = path.substr(std::min(dot + 1, path.size()));
  auto it = std::ranges::find(below_, member,
                              [](const auto& entry) -> std::string_view { return entry.first; });
  if (it == below_.end()) it = below_.emplace(it, std::string(member), FieldMask());
  it->second.Add(rest);
}

}  // namespace lockstep::kube
