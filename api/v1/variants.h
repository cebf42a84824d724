// The variants of an Independent job. Its processes do not train together: each trains alone, with
// `training` as its variant changes it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/field_error.h"

namespace lockstep::api {

inline constexpr int kMostVariants = 256;
// A kubelet reads the last so many bytes of a container's termination message, in which a pod's
// processes report. So a longer list of results would be lost.
inline constexpr std::size_t kTerminationMessageBytes = 4096;
inline constexpr int kMostVariantsPerPod = 16;

// A file name that needs no quotes anywhere: at most 63 lower-case letters, digits, '-' and '.', a
// letter or digit first.
bool IsVariantName(std::string_view name);

// Returns the name of variant `index`: its field `name`, else "variant-<index>".
std::string VariantName(const TrainingSpec& training, int index);

// Returns what the process `index` trains. Merges the variant's fields other than `name` into
// `training` (RFC 7386: a null removes a field), and appends its name to the folders of
// checkpoints, of summaries and of the exported model. Without variants, the processes differ in
// their seed: training's plus `index`. InvalidArgument: the result cannot be read, or there is no
// such variant; names the field.
absl::StatusOr<TrainingSpec> TrainingOfVariant(const TrainingSpec& training, int index);

// Checks the variants of a job with `training`: that only an Independent job has some, one for each
// process, with names that are folders and differ, and that each result is valid.
void ValidateVariants(const TrainingJob& job, std::vector<FieldError>& errors);

// The results of a pod's processes as its termination message, and back. Values keep 7 digits, and
// those that are not finite become absent. The test_metrics stand behind all results, and those of
// the last results are left out where the message would be too long. In a pod of more than three
// containers, a kubelet also cuts off the end; ResultsFromMessage returns what is whole before the
// cut. It returns none if `message` is anything else.
std::string ResultsToMessage(const std::vector<VariantResult>& results);
std::vector<VariantResult> ResultsFromMessage(const std::string& message);

}  // namespace lockstep::api
