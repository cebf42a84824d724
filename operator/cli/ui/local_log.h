// The logs of a run on this machine for a page.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/cli/ui/job_source.h"

namespace lockstep::cli {

// `run` is a work directory whenever `is_run` says so, which each reading asks; `replica` as in
// JobSource::Tail. Of a log that grows faster than it can be shown, lines are left out. A line that
// is redrawn and does not end, such as a progress bar, is shown now and then; another one that does
// not end, once its program has been silent for 10 s or was started again.
std::unique_ptr<LogTail> MakeLocalLogTail(const std::string& run, const std::string& replica,
                                          std::function<bool()> is_run);

}  // namespace lockstep::cli
