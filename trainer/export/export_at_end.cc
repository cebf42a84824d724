#include "trainer/export/export_at_end.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "trainer/export/model_file.h"
#include "trainer/export/onnx_model.h"

namespace lockstep::train {
namespace {

constexpr char kField[] = "spec.training.checkpoint.exportTo";

}  // namespace

absl::Status PrepareExport(const std::string& file, std::size_t model_bytes,
                           const ModelWriter& writer, FileSystem& files) {
  if (file.empty()) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelFormat format, ModelFormatOf(file));
  if (format == ModelFormat::kOnnx && model_bytes > kMostOnnxBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: found {} with a model of {} bytes, expected at most {} for an ONNX file; "
                    "a .safetensors file may be larger",
                    kField, file, model_bytes, kMostOnnxBytes));
  }
  const absl::Status prepared = PrepareModelFile(file, writer, files);
  if (prepared.ok()) return absl::OkStatus();
  return {prepared.code(), fmt::format("{}: the trained model cannot be exported: {}", kField,
                                       std::string(prepared.message()))};
}

absl::Status ExportAtEnd(const std::string& file, TrainedModel model, const ModelWriter& writer,
                         FileSystem& files) {
  if (file.empty()) return absl::OkStatus();
  model.origin = "the trained model";
  const absl::Status written = WriteModelFile(model, file, writer, files);
  if (!written.ok()) {
    return {written.code(), fmt::format("{}: the trained model is not exported: {}", kField,
                                        std::string(written.message()))};
  }
  LogInfo("exported the trained model", {{"file", file}, {"step", model.step}});
  return absl::OkStatus();
}

}  // namespace lockstep::train
