// A set of object members, named by their paths. Pure.
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
  // A path that leads through a list, such as "spec.containers.env", applies to each entry.
  FieldMask(std::initializer_list<std::string_view> paths);

  void Add(std::string_view path);
  // Returns the mask of what lies below `member`, or null if the mask does not contain it.
  const FieldMask* Below(std::string_view member) const;
  // True if the mask contains this member and everything below it.
  bool is_end() const { return is_end_; }
  // The members that the mask contains, each with the mask of what lies below it.
  const std::vector<std::pair<std::string, FieldMask>>& members() const { return below_; }

 private:
  bool is_end_ = false;
  std::vector<std::pair<std::string, FieldMask>> below_;
};

}  // namespace lockstep::kube
