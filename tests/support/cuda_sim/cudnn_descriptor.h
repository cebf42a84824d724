// The descriptors of the simulated cuDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/support/cuda_sim/convolve.h"

namespace cuda_sim::dnn {

enum Status {
  kSuccess = 0,
  kBadParam = 2000,
  kNotSupported = 3000,
  kExecutionFailed = 5000,
};
enum DescriptorType {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kGraph = 15,
  kPack = 16,
  kTensor = 17,
};
enum Type {
  kHandle = 0,
  kDataType = 1,
  kInt64 = 3,
  kFloat = 4,
  kVoidPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kNumericalNote = 11,
  kDescriptor = 15,
};

// Returns `status`, and keeps the reason for cudnnGetLastErrorString in this thread.
int Refuse(int status, std::string reason);
const std::string& LastError();

struct Descriptor {
  int type = 0;
  bool is_final = false;
  std::map<int, std::vector<std::byte>> values;  // by attribute
  std::int64_t engine = -1;                      // of engines, configurations and plans
  const Descriptor* graph = nullptr;             // of configurations and plans

  // Keeps `count` values of `type`.
  int Set(int attribute, int type, std::int64_t count, const void* values);
  // Whether all is set that Finalize requires, and fits.
  int CheckComplete() const;
  template <typename T>
  std::vector<T> All(int attribute) const {
    const std::vector<std::byte>& bytes = values.at(attribute);
    std::vector<T> all(bytes.size() / sizeof(T));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }
  template <typename T>
  T One(int attribute) const {
    return All<T>(attribute).front();
  }
  const Descriptor& Named(int attribute) const { return *One<const Descriptor*>(attribute); }
};

// The attributes of an operation, by the first of them.
struct OperationAttributes {
  int alpha, beta, window, x, w, y;
};
// `operation`: a convolution, forward or backward.
OperationAttributes AttributesOf(const Descriptor& operation);
Convolving ConvolvingOf(const Descriptor& operation);

}  // namespace cuda_sim::dnn
