#include "trainer/export/export_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "base/clock.h"
#include "base/status.h"
#include "trainer/export/checkpoint_model.h"
#include "trainer/export/model_file.h"

namespace lockstep::train {
namespace {

// No supervisor has given this process a number.
ModelWriter ThisProcess() {
  const auto now = SystemClock().Now().time_since_epoch();
  return {.job_uid = {},
          .process = {.pod_started = std::chrono::nanoseconds(now).count(),
                      .process_number = ::getpid()}};
}

}  // namespace

absl::StatusOr<std::string> ExportModel(const ModelExport& request, FileSystem& files) {
  LOCKSTEP_RETURN_IF_ERROR(ModelFormatOf(request.file).status());
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainedModel model,
                            LoadCheckpointModel(files, request.checkpoint));
  LOCKSTEP_RETURN_IF_ERROR(WriteModelFile(model, request.file, ThisProcess(), files));
  return fmt::format("{}: {} tensors of {}, step {}", request.file, model.tensors.size(),
                     model.origin, model.step);
}

}  // namespace lockstep::train
