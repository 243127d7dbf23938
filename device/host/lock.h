// SPDX-License-Identifier: Apache-2.0
// A mutex held for the rest of a scope.
#pragma once

#include <pthread.h>

namespace codetta::host {

struct Locked {
  explicit Locked(pthread_mutex_t& m) : mutex(m) { pthread_mutex_lock(&mutex); }
  ~Locked() { pthread_mutex_unlock(&mutex); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  pthread_mutex_t& mutex;
};

}  // namespace codetta::host
