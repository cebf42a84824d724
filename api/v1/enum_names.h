// The JSON spelling of each enum of TrainingJob.
#pragma once

#include <string_view>
#include <utility>

#include "api/v1/training_job.h"

namespace lockstep::api {

template <class E>
using EnumName = std::pair<E, std::string_view>;

template <class E>
inline constexpr EnumName<E> kEnumNames[] = {};

template <>
inline constexpr EnumName<Role> kEnumNames<Role>[] = {{Role::kChief, "Chief"},
                                                      {Role::kWorker, "Worker"},
                                                      {Role::kParameterServer, "PS"},
                                                      {Role::kEvaluator, "Evaluator"}};
template <>
inline constexpr EnumName<StrategyType> kEnumNames<StrategyType>[] = {
    {StrategyType::kMirrored, "Mirrored"},
    {StrategyType::kMultiWorkerMirrored, "MultiWorkerMirrored"},
    {StrategyType::kParameterServer, "ParameterServer"},
    {StrategyType::kCentralStorage, "CentralStorage"},
    {StrategyType::kIndependent, "Independent"}};
template <>
inline constexpr EnumName<Sharding> kEnumNames<Sharding>[] = {{Sharding::kNone, "None"},
                                                              {Sharding::kZero1, "ZeRO1"}};
template <>
inline constexpr EnumName<Communication> kEnumNames<Communication>[] = {
    {Communication::kAuto, "Auto"}, {Communication::kRing, "Ring"}, {Communication::kNccl, "NCCL"}};
template <>
inline constexpr EnumName<ParameterServerMode> kEnumNames<ParameterServerMode>[] = {
    {ParameterServerMode::kAsync, "Async"}, {ParameterServerMode::kSync, "Sync"}};
template <>
inline constexpr EnumName<ParameterPlacement> kEnumNames<ParameterPlacement>[] = {
    {ParameterPlacement::kBySize, "BySize"}, {ParameterPlacement::kRoundRobin, "RoundRobin"}};
template <>
inline constexpr EnumName<ControllerDevice> kEnumNames<ControllerDevice>[] = {
    {ControllerDevice::kCpu, "CPU"}, {ControllerDevice::kGpu, "GPU"}};
template <>
inline constexpr EnumName<DatasetFormat> kEnumNames<DatasetFormat>[] = {
    {DatasetFormat::kIdx, "idx"},
    {DatasetFormat::kCifar, "cifar"},
    {DatasetFormat::kNpy, "npy"},
    {DatasetFormat::kCsv, "csv"},
    {DatasetFormat::kTfRecord, "tfrecord"},
    {DatasetFormat::kImageFolder, "imageFolder"},
    {DatasetFormat::kSynthetic, "synthetic"}};
template <>
inline constexpr EnumName<Interpolation> kEnumNames<Interpolation>[] = {
    {Interpolation::kBilinear, "Bilinear"},
    {Interpolation::kNearest, "Nearest"},
    {Interpolation::kArea, "Area"}};
template <>
inline constexpr EnumName<RandomFlip> kEnumNames<RandomFlip>[] = {
    {RandomFlip::kNone, "None"}, {RandomFlip::kHorizontal, "Horizontal"}};
template <>
inline constexpr EnumName<AutoShard> kEnumNames<AutoShard>[] = {{AutoShard::kAuto, "Auto"},
                                                                {AutoShard::kData, "Data"},
                                                                {AutoShard::kFile, "File"},
                                                                {AutoShard::kOff, "Off"}};
template <>
inline constexpr EnumName<ScheduleType> kEnumNames<ScheduleType>[] = {
    {ScheduleType::kConstant, "Constant"},
    {ScheduleType::kCosine, "Cosine"},
    {ScheduleType::kStep, "Step"},
    {ScheduleType::kPolynomial, "Polynomial"},
    {ScheduleType::kExponential, "Exponential"},
    {ScheduleType::kOneCycle, "OneCycle"}};
template <>
inline constexpr EnumName<LossType> kEnumNames<LossType>[] = {
    {LossType::kSparseCategoricalCrossentropy, "SparseCategoricalCrossentropy"},
    {LossType::kCategoricalCrossentropy, "CategoricalCrossentropy"},
    {LossType::kBinaryCrossentropy, "BinaryCrossentropy"},
    {LossType::kMeanSquaredError, "MeanSquaredError"},
    {LossType::kMeanAbsoluteError, "MeanAbsoluteError"},
    {LossType::kHuber, "Huber"}};
template <>
inline constexpr EnumName<BestMetric> kEnumNames<BestMetric>[] = {
    {BestMetric::kAccuracy, "Accuracy"},
    {BestMetric::kLoss, "Loss"},
    {BestMetric::kMeanAbsoluteError, "MeanAbsoluteError"},
    {BestMetric::kTopKCategoricalAccuracy, "TopKCategoricalAccuracy"},
    {BestMetric::kAuc, "AUC"},
    {BestMetric::kPrecision, "Precision"},
    {BestMetric::kRecall, "Recall"},
    {BestMetric::kMeanSquaredError, "MeanSquaredError"},
    {BestMetric::kRootMeanSquaredError, "RootMeanSquaredError"}};
template <>
inline constexpr EnumName<TestMetric> kEnumNames<TestMetric>[] = {
    {TestMetric::kTopKCategoricalAccuracy, "TopKCategoricalAccuracy"},
    {TestMetric::kAuc, "AUC"},
    {TestMetric::kPrecision, "Precision"},
    {TestMetric::kRecall, "Recall"},
    {TestMetric::kMeanSquaredError, "MeanSquaredError"},
    {TestMetric::kRootMeanSquaredError, "RootMeanSquaredError"}};
template <>
inline constexpr EnumName<Precision> kEnumNames<Precision>[] = {{Precision::kFloat32, "Float32"},
                                                                {Precision::kTF32, "TF32"},
                                                                {Precision::kBFloat16, "BFloat16"},
                                                                {Precision::kFloat16, "Float16"}};
template <>
inline constexpr EnumName<ActivationCheckpointing> kEnumNames<ActivationCheckpointing>[] = {
    {ActivationCheckpointing::kNone, "None"},
    {ActivationCheckpointing::kSelective, "Selective"},
    {ActivationCheckpointing::kFull, "Full"}};
template <>
inline constexpr EnumName<RestartPolicy> kEnumNames<RestartPolicy>[] = {
    {RestartPolicy::kAlways, "Always"},
    {RestartPolicy::kOnFailure, "OnFailure"},
    {RestartPolicy::kNever, "Never"},
    {RestartPolicy::kExitCode, "ExitCode"}};
template <>
inline constexpr EnumName<DependencyStatus> kEnumNames<DependencyStatus>[] = {
    {DependencyStatus::kReady, "Ready"}, {DependencyStatus::kComplete, "Complete"}};
template <>
inline constexpr EnumName<RestartScope> kEnumNames<RestartScope>[] = {
    {RestartScope::kInPlace, "InPlace"},
    {RestartScope::kGang, "Gang"},
    {RestartScope::kPod, "Pod"}};
template <>
inline constexpr EnumName<SuccessPolicy> kEnumNames<SuccessPolicy>[] = {
    {SuccessPolicy::kChiefOrWorker0, "ChiefOrWorker0"}, {SuccessPolicy::kAllWorkers, "AllWorkers"}};
template <>
inline constexpr EnumName<CleanPodPolicy> kEnumNames<CleanPodPolicy>[] = {
    {CleanPodPolicy::kRunning, "Running"},
    {CleanPodPolicy::kAll, "All"},
    {CleanPodPolicy::kNone, "None"}};
template <>
inline constexpr EnumName<FailureAction> kEnumNames<FailureAction>[] = {
    {FailureAction::kFailJob, "FailJob"},
    {FailureAction::kIgnore, "Ignore"},
    {FailureAction::kCount, "Count"}};
template <>
inline constexpr EnumName<ExitCodeOperator> kEnumNames<ExitCodeOperator>[] = {
    {ExitCodeOperator::kIn, "In"}, {ExitCodeOperator::kNotIn, "NotIn"}};
template <>
inline constexpr EnumName<NetworkPolicy> kEnumNames<NetworkPolicy>[] = {
    {NetworkPolicy::kIsolated, "Isolated"}, {NetworkPolicy::kNone, "None"}};
template <>
inline constexpr EnumName<TokenMount> kEnumNames<TokenMount>[] = {{TokenMount::kMounted, "Mounted"},
                                                                  {TokenMount::kNone, "None"}};
template <>
inline constexpr EnumName<ConditionStatus> kEnumNames<ConditionStatus>[] = {
    {ConditionStatus::kTrue, "True"},
    {ConditionStatus::kFalse, "False"},
    {ConditionStatus::kUnknown, "Unknown"}};

// Returns the name of a value; "" if the value is not in the enum.
template <class E>
constexpr std::string_view NameOf(E value) {
  for (const auto& [candidate, name] : kEnumNames<E>) {
    if (candidate == value) return name;
  }
  return "";
}

template <class E>
constexpr const E* FindByName(std::string_view name) {
  for (const auto& entry : kEnumNames<E>) {
    if (entry.second == name) return &entry.first;
  }
  return nullptr;
}

}  // namespace lockstep::api
