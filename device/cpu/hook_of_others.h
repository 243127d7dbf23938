// SPDX-License-Identifier: Apache-2.0
// What stands behind hook.h where the kernel hands nothing over and its source has hooks all the same: those of its
// other kernels, and of functions that several of them call. Such code is compiled and never runs here.
#ifndef CODETTA_HOOK_OF_OTHERS_H
#define CODETTA_HOOK_OF_OTHERS_H

#ifndef CODETTA_HOOK_H
#include "device/cpu/hook.h"
#endif

namespace codetta {
namespace detail {
namespace {

struct Epilogue {
  template <class T>
  void store(int64_t, int64_t, int64_t, T) const {}
  template <class T>
  void run(int64_t, int64_t, int64_t, const T*, int64_t) const {}
};

}  // namespace
}  // namespace detail
}  // namespace codetta

#endif
