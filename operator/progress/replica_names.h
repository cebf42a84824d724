// Parses trainers' names of replicas. Pure.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::progress {

inline constexpr std::size_t kMostNames = 256;  // as trainer_status.proto promises

// True for "worker 1" and "worker 1 process 2".
bool IsProcessName(std::string_view name);
// True for a pod's name such as "worker-1".
bool IsPodName(std::string_view name);

// Returns the first kMostNames entries of `said` for which `is_name` is true. `said` is untrusted:
// a tenant's program may have answered in the trainer's place.
std::vector<std::string> NamesIn(const google::protobuf::RepeatedPtrField<std::string>& said,
                                 bool (*is_name)(std::string_view));

// Returns the pod of a process: "worker-1".
std::string PodOf(const std::string& process);

}  // namespace lockstep::progress
