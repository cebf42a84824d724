// What trainers call replicas. Pure.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::progress {

inline constexpr std::size_t kMostNames = 256;  // as trainer_status.proto promises

// "worker 1" and "worker 1 process 2".
bool IsProcessName(std::string_view name);
// "worker-1", a pod.
bool IsPodName(std::string_view name);

// Of `said`, the first kMostNames that `is_name` holds of. What answers in a trainer's place is a
// tenant's: it may say anything.
std::vector<std::string> NamesIn(const google::protobuf::RepeatedPtrField<std::string>& said,
                                 bool (*is_name)(std::string_view));

// The pod of a process: "worker-1".
std::string PodOf(const std::string& process);

}  // namespace lockstep::progress
