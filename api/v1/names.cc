#include "api/v1/names.h"

namespace lockstep::api {

bool IsRetryableExitCode(int exit_code) {
  return exit_code >= 128;
}

}  // namespace lockstep::api
