#include "trainer/train/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMostNames = 8;  // in a message

// A file may have more than the model takes: the slots of an optimizer, a head for other classes.
constexpr std::uint64_t kMostTimes = 8, kMostOtherBytes = std::uint64_t{1} << 30U;

std::string SomeOf(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kMostNames);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> LoadInitialWeights(const api::InitialWeightsSpec& weights,
                                                            FileSystem& files, Session& session) {
  if (weights.path.empty()) return std::vector<NamedTensor>();
  const std::uint64_t most = kMostOtherBytes + kMostTimes * ModelBytes(session);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string bytes, files.ReadFile(weights.path, most));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                            ParseSafetensors(bytes, weights.path, OtherTypes::kNamed));
  const auto result = TakeWeights(tensors, weights.exclude, session);
  if (absl::IsFailedPrecondition(result.status()) || absl::IsDataLoss(result.status())) {
    return absl::Status(
        result.status().code(),
        fmt::format("initialWeights: {}: {}; a tensor that initialWeights.exclude names keeps "
                    "its random values",
                    weights.path, std::string(result.status().message())));
  }
  if (!result.ok()) return result.status();
  if (!result->unused.empty()) {
    LogWarning("the file of initial weights has tensors that the model does not have",
               {{"file", weights.path}, {"tensors", SomeOf(result->unused)}});
  }
  LogInfo(
      "took the initial weights from a file",
      {{"file", weights.path}, {"tensors", result->taken.size()}, {"excluded", result->excluded}});
  std::erase_if(tensors, [&](const NamedTensor& tensor) {
    return std::ranges::find(result->taken, tensor.name) == result->taken.end();
  });
  return tensors;
}

}  // namespace lockstep::train
