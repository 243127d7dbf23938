// SPDX-License-Identifier: Apache-2.0
// What the pretended driver knows of order and of places, so that it notices what a real one would only sometimes show:
// work in the context of another device, memory of another device, and work of two streams on one piece of memory
// that nothing orders. Private to the driver.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace codetta::test {

// A stream of a context; the default one is null. `number` of work is its place in its stream, from 1.
using StreamKey = std::pair<const void*, const void*>;  // context, stream
using Seen = std::map<StreamKey, uint64_t>;             // by stream: how much of it has ended before

class FakeOrder {
 public:
  // Of work that `stream` is given now: its number.
  uint64_t begin(const StreamKey& stream) {
    join(seen_[stream], host_);
    return ++seen_[stream][stream];
  }
  // What an event has seen that is recorded now.
  Seen record(const StreamKey& stream) {
    begin(stream);
    return seen_[stream];
  }
  void wait(const StreamKey& stream, const Seen& event) {
    join(seen_[stream], event);
    begin(stream);
  }
  void host_waits(const StreamKey& stream) { join(host_, seen_[stream]); }
  void host_waits(const Seen& event) { join(host_, event); }
  // Whether all of `other` so far is in front of what `stream` does next.
  bool follows(const StreamKey& stream, const StreamKey& other) {
    const auto known = seen_[stream].find(other);
    return seen_[other][other] <= (known == seen_[stream].end() ? 0 : known->second);
  }
  void forget(const void* stream) {
    for (auto& [memory, uses] : uses_) std::erase_if(uses, [&](const auto& use) { return use.first.second == stream; });
    std::erase_if(seen_, [&](const auto& one) { return one.first.second == stream; });
  }

  // Work `number` of `stream` uses this memory: what was used by other streams and is not in front of it, else empty.
  std::string use(const StreamKey& stream, uint64_t number, uint64_t memory, const std::string& what) {
    std::string wrong;
    for (const auto& [other, last] : uses_[memory]) {
      if (other == stream) continue;
      const auto known = seen_[stream].find(other);
      if (known == seen_[stream].end() || known->second < last.first)
        wrong = what + " does not wait for " + last.second + " of another stream, which uses the same memory";
    }
    uses_[memory][stream] = {number, what};
    return wrong;
  }
  void freed(uint64_t memory) { uses_.erase(memory); }

 private:
  static void join(Seen& into, const Seen& from) {
    for (const auto& [stream, number] : from) into[stream] = std::max(into[stream], number);
  }
  std::map<StreamKey, Seen> seen_;
  Seen host_;
  std::map<uint64_t, std::map<StreamKey, std::pair<uint64_t, std::string>>> uses_;  // by memory: the last of a stream
};

}  // namespace codetta::test
