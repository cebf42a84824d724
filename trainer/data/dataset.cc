#include "trainer/data/dataset.h"

#include "base/check.h"
#include "trainer/data/idx.h"
#include "trainer/data/synthetic.h"

namespace lockstep::train {

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const api::DatasetSpec& spec, Split split,
                                                     std::uint64_t seed) {
  switch (spec.format) {
    case api::DatasetFormat::kIdx:
      return OpenIdx(spec.path, split, spec.cache);
    case api::DatasetFormat::kSynthetic:
      return MakeSynthetic(spec.synthetic.value_or(api::SyntheticSpec{}), split, seed, spec.cache);
  }
  LOCKSTEP_CHECK(false, "unknown data set format {}", static_cast<int>(spec.format));
  return absl::InternalError("not reached");
}

}  // namespace lockstep::train
