// The metrics that are built at scrape time: those of a snapshot and of this process.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "operator/metrics/operator_metrics.h"

namespace lockstep::metrics {

std::vector<prometheus::MetricFamily> ScrapedFamilies(const Snapshot& snapshot);

// The process_… metrics, named as in Prometheus' client libraries, from getrusage and /proc, and
// when it began.
std::vector<prometheus::MetricFamily> ProcessFamilies(Time began);

}  // namespace lockstep::metrics
