// The metrics that are made when Prometheus asks: those of a snapshot and of this process.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "operator/metrics/operator_metrics.h"

namespace lockstep::metrics {

std::vector<prometheus::MetricFamily> ScrapedFamilies(const Snapshot& snapshot);

// process_…, as every client library names them, from /proc.
std::vector<prometheus::MetricFamily> ProcessFamilies();

}  // namespace lockstep::metrics
