#include "operator/cli/text/progress_line.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(ProgressLineTest, SaysWhatIsKnown) {
  api::Progress progress;
  progress.step = 704;
  progress.total_steps = 938;
  progress.epoch = 1.501;
  progress.loss = 0.0312;
  progress.accuracy = 0.98911;
  progress.examples_per_second = 1234.4;
  progress.estimated_remaining_seconds = 12;
  EXPECT_EQ(ProgressLine(progress),
            "epoch 1.50/2  step 704/938  loss 0.0312  accuracy 98.91 %  1,234 images/s  0:12 left");
  EXPECT_EQ(ProgressLine(api::Progress()), "epoch 0.00  step 0");
}

TEST(ProgressLineTest, RegressionHasAnErrorAndNoAccuracy) {
  api::Progress progress;
  progress.loss = 0.5;
  progress.mean_absolute_error = 0.6125;
  EXPECT_EQ(ProgressLine(progress), "epoch 0.00  step 0  loss 0.5000  mean absolute error 0.6125");
}

TEST(ProgressLineTest, AProgramMayCountStepsAlone) {
  api::Progress progress;
  progress.step = 7;
  progress.loss = 0.5;
  EXPECT_EQ(ProgressLine(progress), "step 7  loss 0.5000");
}

TEST(ProgressLineTest, TimesAreReadable) {
  EXPECT_EQ(FormatSeconds(0.4), "0:00");
  EXPECT_EQ(FormatSeconds(59.6), "1:00");
  EXPECT_EQ(FormatSeconds(3723), "1:02:03");
}

}  // namespace
}  // namespace lockstep::cli
