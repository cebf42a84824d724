// Keeps decoded samples in a file, for later epochs, later runs and other processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trainer/data/dataset.h"
#include "trainer/data/decoded_source.h"

namespace lockstep::train {

// Returns a data set that decodes each sample of `source` when it is first read, writes it into a
// file in `folder`, and reads it from there from then on. The file is named by what identifies the
// samples (SourceDigest), so several data sets, and jobs, may share the folder. Each
// sample has a fixed place in it, with its stamp (StampOf) and a checksum:
//
// - Any number of processes read and write the file at once, without locks: of a sample that
//   another one is writing, or that a crash or a failing disk has torn, the checksum is wrong, and
//   it is decoded and written again.
// - A sample whose file has changed has another stamp: likewise. A stamp is asked for once.
// - A folder that cannot be written, or a full disk, ends the writing by this process, with one
//   warning. What the file has is still read.
//
// The folder and the file are made when the first sample is written. The file has holes for the
// samples that nobody has read yet. Nobody removes it.
std::unique_ptr<Dataset> CacheOnDisk(std::unique_ptr<DecodedSource> source,
                                     const std::string& folder);

// The bytes of memory that it needs for so many samples.
std::size_t BytesOfStamps(std::int64_t samples);

}  // namespace lockstep::train
