#include "operator/controller/state/settings.h"

namespace lockstep::controller {

TrainerImages DefaultTrainerImages() {
  return {"lockstep-trainer:" LOCKSTEP_VERSION, "lockstep-trainer:" LOCKSTEP_VERSION "-cuda"};
}

}  // namespace lockstep::controller
