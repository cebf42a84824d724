// The runs of `lockstep run` on this machine for a page, by what their work directories hold.
#pragma once

#include <memory>
#include <string>

#include "operator/cli/ui/job_source.h"

namespace lockstep::cli {

// `folder` is a work directory, or a folder of work directories, of which the 100 that were used
// last are shown.
std::unique_ptr<JobSource> MakeLocalSource(const std::string& folder);

}  // namespace lockstep::cli
