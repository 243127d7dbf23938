// SPDX-License-Identifier: Apache-2.0
// What the pretended driver was given, in order: for each piece of work, what of every stream it is behind, as events
// and waits of the host say. Work runs at once here, so that only this tells of a wait that is missing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace codetta::test {

using FakeStream = const void*;                    // a stream, or the context whose default stream it is
using FakeClock = std::map<FakeStream, uint64_t>;  // by stream: how much of it

struct FakeWork {
  std::string what;  // symbol of the call, or the function that is launched
  FakeStream stream = nullptr;
  std::set<int> devices;  // of its stream, and of the memory that it touches
  uint64_t number = 0;    // on its stream, from 1
  FakeClock behind{};
};

class FakeLog {
 public:
  void work(std::string what, FakeStream stream, std::set<int> devices) {
    FakeClock& clock = clock_of(stream);
    ++clock[stream];
    all.push_back({std::move(what), stream, std::move(devices), clock[stream], clock});
  }
  void record(const void* event, FakeStream stream) {
    ++records;
    events_[event] = clock_of(stream);
  }
  void wait(FakeStream stream, const void* event) {
    ++waits;
    merge(clock_of(stream), events_[event]);
  }
  void host_waits_for(FakeStream stream) { merge(host_, clock_of(stream)); }
  void host_waits_for_event(const void* event) { merge(host_, events_[event]); }
  void host_waits_for_all() {
    for (const auto& [stream, clock] : clocks_) merge(host_, clock);
  }
  // Whether work `later` of `all` begins behind `earlier`.
  [[nodiscard]] bool ordered(size_t earlier, size_t later) const {
    const auto at = all[later].behind.find(all[earlier].stream);
    return at != all[later].behind.end() && at->second >= all[earlier].number;
  }
  // Whether all that a stream holds is in front of what comes next on the other one.
  [[nodiscard]] bool joined(FakeStream stream, FakeStream into) {
    FakeClock& clock = clock_of(into);
    return clock[stream] >= clock_of(stream)[stream];
  }

  std::vector<FakeWork> all;
  int records = 0, waits = 0;  // of events, by streams

 private:
  static void merge(FakeClock& into, const FakeClock& from) {
    for (const auto& [stream, count] : from) into[stream] = std::max(into[stream], count);
  }
  FakeClock& clock_of(FakeStream stream) {
    FakeClock& clock = clocks_[stream];
    merge(clock, host_);
    return clock;
  }
  std::map<FakeStream, FakeClock> clocks_;
  std::map<const void*, FakeClock> events_;
  FakeClock host_;
};

}  // namespace codetta::test
