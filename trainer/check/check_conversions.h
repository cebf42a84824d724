// Conversions between types and layouts, and what is done to each element, against `reference`.
#pragma once

#include "trainer/check/check_report.h"

namespace lockstep::train {

CheckGroup CheckConversions(Backend& backend);

}  // namespace lockstep::train
