// SPDX-License-Identifier: Apache-2.0
// What orders copies between devices: enough, found by replaying random programs, and for two devices no more.
#include "package/device_copies.hpp"

#include <gtest/gtest.h>

#include "support/device_replay.hpp"

namespace codetta::package {
namespace {

using codetta::test::DeviceReplay;

class DeviceCopies : public ::testing::Test {
 protected:
  // Two outputs on each device, which are buffers 2 * device and 2 * device + 1.
  void make(uint32_t devices) {
    p_ = {};
    p_.name = "f";
    p_.target = Target::parse("cuda:sm_90a").value();
    p_.device_count = devices;
    for (uint32_t b = 0; b < 2 * devices; ++b) {
      Buffer buffer;
      buffer.name = "b" + std::to_string(b);
      buffer.role = Buffer::Role::Output;
      buffer.shape = {types::Dim::constant(4)};
      buffer.device = b / 2;
      p_.buffers.push_back(buffer);
    }
    Buffer flag;
    flag.name = "flag";
    flag.dtype = DType::boolean;
    flag.is_scalar = true;
    p_.buffers.push_back(flag);
  }
  static void put_fill(StepList& list, uint32_t device) {
    list.emplace_back(EnterDevice{device});
    list.emplace_back(Fill{2 * device});
    list.emplace_back(ExitDevice{});
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  // `depth`: of branches and loops.
  StepList steps(int depth) {
    StepList list;
    const uint32_t flag = 2 * p_.device_count, count = 2 + below(8);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t kind = below(depth > 0 ? 8 : 7), a = below(flag), b = below(flag);
      if (kind < 4 && a != b) {
        list.emplace_back(Copy{a, b});
      } else if (kind == 7) {
        const uint32_t device = below(p_.device_count);
        const auto child = [&] {
          StepList made = steps(depth - 1);
          p_.step_lists.push_back(std::move(made));
          return static_cast<uint32_t>(p_.step_lists.size() - 1);
        };
        const uint32_t one = child(), other = child();
        list.emplace_back(EnterDevice{device});
        if (below(2) == 0) {
          list.emplace_back(If{flag, one, other});
        } else {
          list.emplace_back(While{one, flag, other});
        }
        list.emplace_back(ExitDevice{});
      } else {
        put_fill(list, below(p_.device_count));
      }
    }
    return list;
  }
  void make_random(uint32_t seed, uint32_t devices, int depth) {
    random_.seed(seed);
    make(devices);
    p_.steps = steps(depth);
    p_.steps.emplace_back(Return{});
    ASSERT_EQ(find_defect(p_).value_or(""), "");
  }
  // Of some runs.
  std::string wrong(const std::vector<DeviceCopy>& copies, bool gathers) const {
    for (uint32_t run = 0; run < 24; ++run) {
      DeviceReplay replay(p_, copies, run, gathers);
      if (std::string found = replay.run(); !found.empty()) return found;
      EXPECT_GT(replay.works, 0);
    }
    return {};
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const DeviceCopy& copy : device_copies(p_))
      all +=
          line_of(copy, {[&](uint32_t b) { return p_.buffers[b].name; }, {}}) + (copy.follows ? " (follows)\n" : "\n");
    return all;
  }

  Package p_;
  std::mt19937 random_{1};
};

TEST_F(DeviceCopies, RandomProgramsAreOrdered) {
  size_t copies = 0, waits = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    make_random(seed, 2 + seed % 3, static_cast<int>(seed % 4));
    const std::vector<DeviceCopy> found = device_copies(p_);
    EXPECT_EQ(wrong(found, false), "");
    EXPECT_EQ(wrong(found, true), "");
    copies += found.size();
    for (const DeviceCopy& copy : found) waits += size_t{copy.waits} + size_t{copy.waited_for};
  }
  EXPECT_GT(copies, 1000U);
  EXPECT_LT(waits, 2 * copies);
}

// Of lists that run as they stand on two devices, each wait that is there is needed, and the replay notices its
// absence.
TEST_F(DeviceCopies, EachMissingWaitIsNoticed) {
  int planted = 0, follows = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    make_random(seed, 2, 0);
    std::vector<DeviceCopy> found = device_copies(p_);
    for (DeviceCopy& copy : found) {
      for (bool DeviceCopy::*flag : {&DeviceCopy::waits, &DeviceCopy::waited_for, &DeviceCopy::follows}) {
        if (!(copy.*flag)) continue;
        copy.*flag = false;
        const bool gathers = flag == &DeviceCopy::follows;
        EXPECT_NE(wrong(found, gathers), "") << copy.step->source << " to " << copy.step->target
                                             << (gathers                      ? ": follows"
                                                 : flag == &DeviceCopy::waits ? ": waits"
                                                                              : ": waited_for");
        copy.*flag = true;
        ++planted;
        follows += gathers ? 1 : 0;
      }
    }
  }
  EXPECT_GT(planted, 500);
  EXPECT_GT(follows, 50);
}

TEST_F(DeviceCopies, MissingWaitsInBranchesAndLoopsAreNoticed) {
  int planted = 0, noticed = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    make_random(seed, 3, 2);
    std::vector<DeviceCopy> found = device_copies(p_);
    for (DeviceCopy& copy : found) {
      for (bool DeviceCopy::*flag : {&DeviceCopy::waits, &DeviceCopy::waited_for}) {
        if (!(copy.*flag)) continue;
        copy.*flag = false;
        noticed += wrong(found, false).empty() ? 0 : 1;
        copy.*flag = true;
        ++planted;
      }
    }
  }
  EXPECT_GT(planted, 1000);
  EXPECT_GT(noticed, planted / 2) << "others stand where a run does not come, or where a list is not looked into";
}

TEST_F(DeviceCopies, CopiesInARowShareTheirWaits) {
  make(2);
  put_fill(p_.steps, 0);
  p_.steps.insert(p_.steps.end(), {Copy{0, 2}, Copy{1, 3}, Copy{2, 0}, Return{}});
  EXPECT_EQ(text(),
            "copy b0 to b2: device 0 to 1, 1 waits for 0\n"
            "copy b1 to b3: device 0 to 1 (follows)\n"
            "copy b2 to b0: device 1 to 0, 0 waits for 1, then 1 for 0\n");
}

TEST_F(DeviceCopies, WhatLiesThereAtTheBeginIsNotWaitedFor) {
  make(3);
  p_.steps = {Copy{0, 2}, Copy{0, 4}, Return{}};
  EXPECT_EQ(text(),
            "copy b0 to b2: device 0 to 1, then 0 for 1\n"
            "copy b0 to b4: device 0 to 2, 2 waits for 0, then 0 for 2\n");
}

// Work of the target's device between two copies holds nobody; that of the source's does.
TEST_F(DeviceCopies, WorkBetweenTwoCopies) {
  make(2);
  p_.steps = {Copy{0, 2}};
  put_fill(p_.steps, 1);
  p_.steps.emplace_back(Copy{1, 3});
  put_fill(p_.steps, 0);
  p_.steps.emplace_back(Copy{1, 2});
  p_.steps.emplace_back(Return{});
  EXPECT_EQ(text(),
            "copy b0 to b2: device 0 to 1\n"
            "copy b1 to b3: device 0 to 1, then 0 for 1 (follows)\n"
            "copy b1 to b2: device 0 to 1, 1 waits for 0, then 0 for 1\n");
}

// What a branch finds in front of it, and leaves behind it, is anything.
TEST_F(DeviceCopies, BranchesBeginAndEndWithNothingKnown) {
  make(2);
  p_.step_lists = {{Copy{0, 2}, Copy{1, 3}}, {}};
  p_.steps = {Copy{0, 2}, If{4, 0, 1}, Copy{0, 2}, Return{}};
  EXPECT_EQ(text(),
            "copy b0 to b2: device 0 to 1, then 0 for 1\n"
            "copy b0 to b2: device 0 to 1, 1 waits for 0, then 0 for 1\n"
            "copy b0 to b2: device 0 to 1, 1 waits for 0\n"
            "copy b1 to b3: device 0 to 1, then 0 for 1 (follows)\n");
}

TEST_F(DeviceCopies, OneDeviceHasNone) {
  make(1);
  p_.steps = {Copy{0, 1}, Return{}};
  EXPECT_TRUE(device_copies(p_).empty());
  make(2);
  p_.target = Target::parse("cpu").value();
  p_.steps = {Copy{0, 2}, Return{}};
  EXPECT_TRUE(device_copies(p_).empty()) << "on a CPU all devices are one";
}

}  // namespace
}  // namespace codetta::package
