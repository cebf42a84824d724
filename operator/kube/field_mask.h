// A set of members of objects, by their paths. Pure.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::kube {

class FieldMask {
 public:
  FieldMask() = default;
  // "spec.containers.env": of each entry, where a path leads through a list.
  FieldMask(std::initializer_list<std::string_view> paths);

  void Add(std::string_view path);
  // What is named below a member; null: nothing.
  const FieldMask* Below(std::string_view member) const;
  // The member itself is in the set, with all below it.
  bool is_end() const { return is_end_; }

 private:
  bool is_end_ = false;
  std::vector<std::pair<std::string, FieldMask>> below_;
};

}  // namespace lockstep::kube
