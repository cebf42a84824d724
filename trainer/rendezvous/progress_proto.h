// Converts Progress to and from TrainerStatus's message.
#pragma once

#include "api/proto/trainer_status.pb.h"
#include "api/v1/training_job.h"

namespace lockstep::train {

proto::TrainerProgress ToProto(const api::Progress& progress);
api::Progress FromProto(const proto::TrainerProgress& message);

void AddTestMetrics(const api::TestMetrics& metrics,
                    google::protobuf::RepeatedPtrField<proto::TestMetric>& messages);

}  // namespace lockstep::train
