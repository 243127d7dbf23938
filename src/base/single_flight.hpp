// SPDX-License-Identifier: Apache-2.0
// At most one computation per key at a time in this process; whoever asks meanwhile waits and gets the same value.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace codetta::base {

// Not a cache: a key is forgotten as soon as its computation is done. Value is copied to every waiter. A computation
// must not ask for its own key. Should it leave by an exception, one of the waiters computes in its place.
template <class Key, class Value, class Hash = std::hash<Key>>
class SingleFlight {
 public:
  struct Outcome {
    Value value;
    bool computed_here = false;  // false: another thread did it
  };

  SingleFlight() = default;
  SingleFlight(const SingleFlight&) = delete;
  SingleFlight& operator=(const SingleFlight&) = delete;

  template <class Compute>
  Outcome run(const Key& key, Compute&& compute) {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto at = flights_.find(key);
      if (at == flights_.end()) break;
      const std::shared_ptr<Flight> flight = at->second;
      ++flight->waiting;
      flight->landed.wait(lock, [&] { return flight->done; });
      --flight->waiting;
      if (flight->value) return {*flight->value, false};
    }
    const auto flight = std::make_shared<Flight>();
    flights_.emplace(key, flight);
    lock.unlock();

    Landing landing{*this, key, *flight, lock};
    std::optional<Value> value(std::forward<Compute>(compute)());
    lock.lock();
    if (flight->waiting != 0) flight->value = *value;
    return {std::move(*value), true};
  }

  // How many threads wait for the key now; for tests and statistics.
  [[nodiscard]] size_t waiting(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto at = flights_.find(key);
    return at == flights_.end() ? 0 : at->second->waiting;
  }

 private:
  struct Flight {
    std::condition_variable landed;
    std::optional<Value> value;
    size_t waiting = 0;
    bool done = false;
  };

  // Ends the flight on every path, the exceptional one included.
  struct Landing {
    SingleFlight& owner;
    const Key& key;
    Flight& flight;
    std::unique_lock<std::mutex>& lock;
    ~Landing() {
      if (!lock.owns_lock()) lock.lock();
      flight.done = true;
      owner.flights_.erase(key);
      flight.landed.notify_all();
    }
  };

  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<Flight>, Hash> flights_;
};

}  // namespace codetta::base
