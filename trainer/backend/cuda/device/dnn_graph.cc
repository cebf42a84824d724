#include "trainer/backend/cuda/device/dnn_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device_library.h"
#include "trainer/core/arena.h"

namespace lockstep::train::cuda {
namespace {

// An engine may always need so much. One that needs more than the tensors are large would take the
// memory that the model needs.
constexpr std::size_t kModestWorkspaceBytes = std::size_t{256} << 20;
// NVIDIA's frameworks pass no other, so engines may rely on it; cuBLASLt, which some call, does.
constexpr std::size_t kWorkspaceAlignment = 256;

CudnnApi LoadCudnn(std::string& path) {
  const DeviceLibrary library({"libcudnn.so.9"}, "NVIDIA's cuDNN 9 (libcudnn.so.9)");
  CudnnApi api;
#define LOCKSTEP_LOAD(result, member, symbol, arguments) library.Load(api.member, symbol);
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
  path = library.path();
  return api;
}

int DnnTypeOf(DType type) {
  switch (type) {
    case DType::kBFloat16:
      return kDnnDataBfloat16;
    case DType::kFloat16:
      return kDnnDataHalf;
    default:
      return kDnnDataFloat;
  }
}

std::size_t BytesOf(const std::vector<DnnTensor>& tensors) {
  std::size_t bytes = 0;
  for (const DnnTensor& tensor : tensors) {
    std::size_t elements = 1;
    for (const std::int64_t dimension : tensor.dimensions) {
      elements *= static_cast<std::size_t>(dimension);
    }
    bytes += elements * SizeOf(tensor.type);
  }
  return bytes;
}

}  // namespace

DnnLibrary::DnnLibrary(StreamHandle stream) : api_(LoadCudnn(path_)) {
  Check(api_.Create(&handle_), "cudnnCreate");
  Check(api_.SetStream(handle_, stream), "cudnnSetStream");
}

DnnLibrary::DnnLibrary() : api_(LoadCudnn(path_)) {}

DnnLibrary::~DnnLibrary() {
  if (handle_ != nullptr) api_.Destroy(handle_);
}

void DnnLibrary::Check(int status, const char* call) const {
  if (status == kDnnSuccess) return;
  throw DeviceError(fmt::format("back end cuda: {} failed with {}: {}: {}", call, status,
                                api_.GetErrorString(status), LastError()));
}

std::string DnnLibrary::LastError() const {
  std::array<char, 1024> message = {};
  api_.GetLastErrorString(message.data(), message.size());
  return message.data();
}

DnnDescriptor::DnnDescriptor(const DnnLibrary& library, DnnDescriptorType type)
    : library_(&library), handle_(nullptr, library.api().DestroyDescriptor) {
  DnnDescriptorHandle handle = nullptr;
  library.Check(library.api().CreateDescriptor(type, &handle), "cudnnBackendCreateDescriptor");
  handle_.reset(handle);
}

void DnnDescriptor::Set(DnnAttribute attribute, DnnType type, std::int64_t count,
                        const void* values) {
  library_->Check(library_->api().SetAttribute(handle(), attribute, type, count, values),
                  "cudnnBackendSetAttribute");
}

void DnnDescriptor::Set(DnnAttribute attribute, const std::vector<std::int64_t>& values) {
  Set(attribute, DnnType::kInt64, static_cast<std::int64_t>(values.size()), values.data());
}

void DnnDescriptor::Set(DnnAttribute attribute, std::int64_t value) {
  Set(attribute, DnnType::kInt64, 1, &value);
}

void DnnDescriptor::Set(DnnAttribute attribute, float value) {
  Set(attribute, DnnType::kFloat, 1, &value);
}

void DnnDescriptor::Set(DnnAttribute attribute, const DnnDescriptor& value) {
  const DnnDescriptorHandle handle = value.handle();
  Set(attribute, DnnType::kDescriptor, 1, &handle);
}

void DnnDescriptor::Set(DnnAttribute attribute, DnnType type, int value) {
  Set(attribute, type, 1, &value);
}

std::int64_t DnnDescriptor::Get(DnnAttribute attribute, DnnType type, std::int64_t count,
                                void* values) const {
  std::int64_t found = 0;
  library_->Check(library_->api().GetAttribute(handle(), attribute, type, count, &found, values),
                  "cudnnBackendGetAttribute");
  return count == 0 ? found : std::min(found, count);
}

bool DnnDescriptor::TryFinalize(std::string& refusal) {
  if (library_->api().Finalize(handle()) == kDnnSuccess) return true;
  refusal = library_->LastError();
  return false;
}

void DnnDescriptor::Finalize() {
  library_->Check(library_->api().Finalize(handle()), "cudnnBackendFinalize");
}

bool KeepsPrecisionAndBits(const DnnDescriptor& engine, Factors factors) {
  std::array<int, kDnnNoteCount> notes = {};
  const std::int64_t count = engine.Get(DnnAttribute::kEngineNumericalNote, DnnType::kNumericalNote,
                                        kDnnNoteCount, notes.data());
  return std::none_of(notes.begin(), notes.begin() + count, [=](int note) {
    return (note == kDnnNoteTensorCore && factors == Factors::kKept) ||
           note == kDnnNoteDownConvertInputs || note == kDnnNoteReducedPrecisionReduction ||
           note == kDnnNoteNondeterministic;
  });
}

DnnDescriptor MakeDnnTensor(const DnnLibrary& library, const DnnTensor& tensor) {
  DnnDescriptor made(library, DnnDescriptorType::kTensor);
  made.Set(DnnAttribute::kTensorDataType, DnnType::kDataType, DnnTypeOf(tensor.type));
  made.Set(DnnAttribute::kTensorDimensions, DnnType::kInt64, 4, tensor.dimensions.data());
  made.Set(DnnAttribute::kTensorStrides, DnnType::kInt64, 4, tensor.strides.data());
  made.Set(DnnAttribute::kTensorUniqueId, tensor.id);
  made.Set(DnnAttribute::kTensorByteAlignment, std::int64_t{kArenaAlignment});
  made.Finalize();
  return made;
}

// It depends on shapes alone, as every choice must: what is free on the device may differ in a run
// that resumes this one.
DnnPlan::DnnPlan(const Device& device, std::vector<DnnDescriptor> parts,
                 const std::vector<DnnTensor>& tensors, const std::string& name, Factors factors)
    : device_(device),
      library_(device.dnn_library()),
      parts_(std::move(parts)),
      most_workspace_bytes_(std::max(kModestWorkspaceBytes, BytesOf(tensors))),
      factors_(factors) {
  for (const DnnTensor& tensor : tensors) ids_.push_back(tensor.id);
  const DnnLibraryHandle handle = library_.handle();
  DnnDescriptor graph(library_, DnnDescriptorType::kOperationGraph);
  graph.Set(DnnAttribute::kGraphHandle, DnnType::kHandle, 1, &handle);
  graph.Set(DnnAttribute::kGraphOperations, parts_.back());
  graph.Finalize();
  // The first ranks what it is sure of, the last knows something for every operation.
  for (const int heuristic : {kDnnHeuristicA, kDnnHeuristicB, kDnnHeuristicFallback}) {
    if (ChooseBy(heuristic, graph)) break;
  }
  parts_.push_back(std::move(graph));
  if (choice_) return;
  throw DeviceError(
      fmt::format("back end cuda: cuDNN has no engine for {} on {}; its last refusal: {}", name,
                  device.name(), refusal_));
}

bool DnnPlan::ChooseBy(int heuristic, const DnnDescriptor& graph) {
  DnnDescriptor ranking(library_, DnnDescriptorType::kEngineHeuristic);
  ranking.Set(DnnAttribute::kEngineHeuristicGraph, graph);
  ranking.Set(DnnAttribute::kEngineHeuristicMode, DnnType::kHeuristicMode, heuristic);
  if (!ranking.TryFinalize(refusal_)) return false;
  const std::int64_t count =
      ranking.Get(DnnAttribute::kEngineHeuristicResults, DnnType::kDescriptor, 0, nullptr);
  std::vector<DnnDescriptor> configs;
  std::vector<DnnDescriptorHandle> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    handles.push_back(configs.emplace_back(library_, DnnDescriptorType::kEngineConfig).handle());
  }
  if (count == 0) return false;
  const std::int64_t found = ranking.Get(DnnAttribute::kEngineHeuristicResults,
                                         DnnType::kDescriptor, count, handles.data());
  parts_.push_back(std::move(ranking));
  for (std::int64_t i = 0; i < found; ++i) {
    if (Consider(std::move(configs[static_cast<std::size_t>(i)]))) return true;
  }
  return false;
}

bool DnnPlan::Consider(DnnDescriptor config) {
  DnnDescriptor engine(library_, DnnDescriptorType::kEngine);
  DnnDescriptorHandle engine_handle = engine.handle();
  config.Get(DnnAttribute::kEngineConfigEngine, DnnType::kDescriptor, 1, &engine_handle);
  if (!KeepsPrecisionAndBits(engine, factors_)) return false;
  const DnnLibraryHandle handle = library_.handle();
  auto plan = std::make_unique<DnnDescriptor>(library_, DnnDescriptorType::kExecutionPlan);
  plan->Set(DnnAttribute::kPlanHandle, DnnType::kHandle, 1, &handle);
  plan->Set(DnnAttribute::kPlanEngineConfig, config);
  if (!plan->TryFinalize(refusal_)) return false;
  std::int64_t needed = 0;
  plan->Get(DnnAttribute::kPlanWorkspaceSize, DnnType::kInt64, 1, &needed);
  const auto bytes = static_cast<std::size_t>(needed);
  if (choice_ && bytes >= choice_->workspace_bytes) return false;
  std::int64_t index = 0;
  engine.Get(DnnAttribute::kEngineGlobalIndex, DnnType::kInt64, 1, &index);
  choice_.reset();  // a plan goes before its configuration
  choice_.emplace(Choice{.config = std::move(config),
                         .plan = std::move(plan),
                         .engine = index,
                         .workspace_bytes = bytes});
  return bytes <= most_workspace_bytes_;
}

std::size_t DnnPlan::WorkspaceBytes() const {
  const std::size_t bytes = choice_->workspace_bytes;
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

void DnnPlan::Run(std::span<void* const> memory, void* workspace) {
  device_.driver();  // makes the context current
  std::size_t space = WorkspaceBytes();
  if (space > 0) std::align(kWorkspaceAlignment, choice_->workspace_bytes, workspace, space);
  const bool is_packed = pack_ != nullptr && workspace == packed_workspace_ &&
                         std::equal(memory.begin(), memory.end(), packed_.begin(), packed_.end());
  if (!is_packed) Pack(memory, workspace);
  library_.Check(
      library_.api().Execute(library_.handle(), choice_->plan->handle(), pack_->handle()),
      "cudnnBackendExecute");
}

void DnnPlan::Pack(std::span<void* const> memory, void* workspace) {
  auto pack = std::make_unique<DnnDescriptor>(library_, DnnDescriptorType::kVariantPack);
  pack->Set(DnnAttribute::kPackUniqueIds, ids_);
  pack->Set(DnnAttribute::kPackDataPointers, DnnType::kVoidPointer,
            static_cast<std::int64_t>(memory.size()), memory.data());
  pack->Set(DnnAttribute::kPackWorkspace, DnnType::kVoidPointer, 1, &workspace);
  pack->Finalize();
  pack_ = std::move(pack);
  packed_.assign(memory.begin(), memory.end());
  packed_workspace_ = workspace;
}

}  // namespace lockstep::train::cuda
