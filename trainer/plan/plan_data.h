// What a plan has to know of the data sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct DataFacts {
  std::optional<std::int64_t> samples;  // absent: not known without opening the files
  Shape shape;                          // of a sample
  DType element = DType::kUInt8;
  std::int64_t classes = 0, targets = 0;  // as in Dataset
  bool in_memory = false;                 // as Dataset::InMemory
  // Those that have samples; absent: not known without opening them, or not asked for, because no
  // replica has files of its own.
  std::optional<std::int64_t> files;
};

// Says what the files do not, so that they are not opened.
struct GivenData {
  std::optional<std::int64_t> samples, classes;
  std::optional<Shape> shape;
  bool empty() const { return !samples && !classes && !shape; }
};

struct PlannedData {
  DataFacts train;
  std::optional<DataFacts> test;  // absent: evaluation is off
  bool is_opened = false;         // the files were opened
  // What a replica keeps of samples, and of tables that say whose the files are; mapped files do
  // not count.
  std::size_t bytes = 0;
  // Not empty: what `bytes` lacks, because the number of samples is not known, and what to give.
  std::string uncounted;
};

// Opens the data sets as a replica does, and closes them again. With anything `given`, or if the
// files are not there, takes what is given and then what the spec fixes. NotFound: the files are
// not there, and the shape or the number of classes is in neither; says so. Other errors are those
// of Session::OpenData.
absl::StatusOr<PlannedData> PlanData(const SessionOptions& options, const GivenData& given);

// The same for an Evaluator of a run whose training data are `trained`: `train` is theirs, and the
// rest is what the Evaluator opens, the test set alone. `options`: of the session that it makes.
// Does not open the files if those of `trained` were not opened. If they are not there, the test
// samples are taken to be like the training samples. Errors: those of Session::OpenData but
// NotFound.
absl::StatusOr<PlannedData> PlanTestData(const SessionOptions& options, const PlannedData& trained);

// A data set of these facts, of one sample if their number is not known, that has no content: Read
// throws CheckFailure.
std::unique_ptr<Dataset> DatasetOf(const DataFacts& facts);

}  // namespace lockstep::train
