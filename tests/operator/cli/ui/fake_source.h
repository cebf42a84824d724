// A source of jobs that counts what it is asked for.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/v1/conditions.h"
#include "operator/cli/ui/job_source.h"

namespace lockstep::cli {

class FakeSource final : public JobSource {
 public:
  std::string Name() const override { return "namespace n"; }
  absl::StatusOr<std::vector<ListedJob>> List() override {
    ++lists;
    if (is_down) return absl::UnavailableError("connection refused");
    std::vector<ListedJob> jobs{Listed("a"), Listed("b")};
    for (int i = 0; i < others; ++i) {
      jobs.push_back(Listed("other-" + std::to_string(i)));
      if (others_have_ended) End(jobs.back());
    }
    if (others > 0) jobs.push_back(Listed("z"));
    return jobs;
  }
  absl::StatusOr<JobLook> Look(const kube::Key& job, bool events) override {
    ++looks;
    if (job.name.starts_with("silent")) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (is_down) return absl::UnavailableError("connection refused");
    if (job.name == "gone") return absl::NotFoundError("trainingjobs gone not found");
    JobLook look;
    look.listed = Listed(job.name);
    if (others_have_ended && job.name.starts_with("other")) End(look.listed);
    if (events) {
      look.facts.events.push_back(
          {{"reason", "Started"}, {"message", "<script>\033[31m"}, {"type", "Normal"}});
    }
    if (int step = live_step; step >= 0) {
      look.seen.ranks.emplace_back();
      look.seen.top.step = step;
      live_step.compare_exchange_strong(step, step + 1);  // unless the test has set another
    }
    return look;
  }
  std::unique_ptr<LogTail> Tail(const kube::Key& /*job*/, const std::string& replica) override {
    class Tail final : public LogTail {
     public:
      explicit Tail(std::string replica) : replica_(std::move(replica)) {}
      absl::Status Read(std::vector<LogLine>& lines) override {
        if (replica_.starts_with("silent")) std::this_thread::sleep_for(std::chrono::seconds(1));
        lines.push_back({Time(), replica_, "line " + std::to_string(count_++)});
        return absl::OkStatus();
      }

     private:
      const std::string replica_;
      int count_ = 0;
    };
    return std::make_unique<Tail>(replica);
  }

  std::atomic<int> lists = 0, looks = 0;
  std::atomic<int> generation = 1;  // of the jobs, which have been made again
  std::atomic<bool> is_down = false;
  std::atomic<int> others = 0;  // jobs between "b" and "z"
  std::atomic<bool> others_have_ended = false;
  std::atomic<int> status_step = -1;  // of each job; -1: the number of lists
  std::atomic<int> live_step = -1;    // of the ranks, one more at each look; -1: none answers

 private:
  static void End(ListedJob& listed) {
    api::Condition& succeeded = listed.job.status.conditions.emplace_back();
    succeeded.type = api::kSucceeded;
    succeeded.status = api::ConditionStatus::kTrue;
  }
  ListedJob Listed(const std::string& name) {
    ListedJob listed{.key = {"n", name}, .job = {}, .state = "Running"};
    listed.job.metadata.name = name;
    listed.job.metadata.uid = std::to_string(generation);
    listed.job.status.progress.emplace();
    listed.job.status.progress->step = status_step < 0 ? lists : status_step;
    listed.job.status.progress->loss = 0.5;
    return listed;
  }
};

}  // namespace lockstep::cli
