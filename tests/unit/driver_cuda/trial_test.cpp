// SPDX-License-Identifier: Apache-2.0
// Trials on a GPU by a command that greets as it should, and does something else then: what has not begun to run has
// neither crashed nor hung.
#include "driver/trial.hpp"

#include <sys/stat.h>

#include <cstring>

#include "driver/build_id.hpp"
#include "driver/trial_messages.hpp"
#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

class CudaTrials : public CudaApi {
 protected:
  static std::string framed(driver::TrialAnswer::Kind kind) {
    const std::string frame = driver::TrialAnswer{kind, {}}.encode();
    const uint64_t size = frame.size();
    std::string whole(sizeof size, '\0');
    std::memcpy(whole.data(), &size, sizeof size);
    return whole + frame;
  }
  // A context whose command greets, and then does what `script` says, in which $MADE and $RAN are answers.
  Context commanded(const std::string& script) {
    const std::string folder = folder_->path();
    EXPECT_TRUE(base::write_file_atomically(folder + "/made", framed(driver::TrialAnswer::Kind::Made)));
    EXPECT_TRUE(base::write_file_atomically(folder + "/ran", framed(driver::TrialAnswer::Kind::Ran)));
    EXPECT_TRUE(base::write_file_atomically(folder + "/command", "#!/bin/sh\nMADE=" + folder + "/made RAN=" + folder +
                                                                     "/ran\ncat $MADE\n" + script + "\n"));
    EXPECT_EQ(::chmod((folder + "/command").c_str(), 0755), 0);
    ContextOptions made = options();
    made.command = folder + "/command";
    return Context::make(made).value();
  }
  struct Tried {
    base::Expected<driver::TrialOutcome, std::string> outcome;
    double seconds = 0;
  };
  // A product whose A has that many rows, whose contents are sent along. `starts`: seconds.
  static Tried tried(Context& context, double starts, int64_t rows = m) {
    const Problem of = problem(context, f32, plain, rows);
    KernelList found = kernels(of, context);
    Execution execution = found[0].prepare(of.arguments).value();
    driver::Trials trials(*context.shared_state(), {Backend::cuda, {}, ""}, starts);
    const auto begin = std::chrono::steady_clock::now();
    auto outcome = trials.run(execution, 0.2, true, {});
    return {std::move(outcome), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  }
};

TEST_F(CudaTrials, EndsAndHangsAreOfTheRun) {
  Context ends = commanded("cat $MADE $RAN; exec sleep 1000");
  const auto ended = tried(ends, 60).outcome;
  ASSERT_TRUE(ended) << ended.error();
  EXPECT_EQ(ended->end, base::IsolatedEnd::Finished) << ended->summary;
  Context hangs = commanded("cat $MADE; exec sleep 1000");
  const auto hung = tried(hangs, 60).outcome;
  ASSERT_TRUE(hung) << hung.error();
  EXPECT_EQ(hung->end, base::IsolatedEnd::TimedOut);
  Context crashes = commanded("cat $MADE; kill -SEGV $$");
  const auto crashed = tried(crashes, 60).outcome;
  ASSERT_TRUE(crashed) << crashed.error();
  EXPECT_EQ(crashed->end, base::IsolatedEnd::Died);
}

TEST_F(CudaTrials, WhatIsNotMadeInTimeIsNoneThatHangs) {
  Context context = commanded("exec sleep 1000");
  const Tried small = tried(context, 3);
  ASSERT_FALSE(small.outcome);
  EXPECT_EQ(small.outcome.error().substr(0, 41), "it could not be made there: no end within") << small.outcome.error();
  EXPECT_GE(small.seconds, 3);
}

TEST_F(CudaTrials, LargeOperandsHaveMoreTimeToTravel) {
  Context context = commanded("exec sleep 1000");
  const int64_t rows = 25'000'000 / (k * 4);  // of A, and D has more
  const Tried large = tried(context, 3, rows);
  ASSERT_FALSE(large.outcome);
  EXPECT_GE(large.seconds, 4) << "a second for 50 MB";
}

TEST_F(CudaTrials, OneThatEndsBeforeItRunsIsNoneThatCrashes) {
  Context context = commanded("kill -KILL $$");
  const auto outcome = tried(context, 60).outcome;
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().substr(0, 36), "it could not be made there: signal 9") << outcome.error();
}

}  // namespace
}  // namespace codetta
