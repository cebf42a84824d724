// FormatApiTime, for memory_client.cc.
#pragma once

#include "base/rfc3339.h"
