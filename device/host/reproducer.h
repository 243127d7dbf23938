// SPDX-License-Identifier: Apache-2.0
// What the program of a reproducer includes: data for one kernel, a call of it, what it wrote and how long it takes.
// usage: reproducer [SEED [REPEATS]]
#pragma once

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "device/host/gpu_calls.h"

namespace codetta::host {

struct GivenTensor {
  const char* name;
  i32 dtype, rank;
  i64 sizes[max_rank], strides[max_rank];
  bool written, number;
};
using CallTensors = int (*)(const Tensor* tensors, i32 count, void* workspace, i64 bytes, void* stream);
struct GivenKernel {
  Status (*load_driver)(GpuCalls& calls);  // null: the kernel runs on a CPU
  int (*init)();
  CallTensors call;
  const char* (*error)();
};

// Elements from the first to behind the last, where their bytes and some more can be counted.
inline Number reach_of(const GivenTensor& given) {
  Number reach(1);
  for (i32 d = 0; d < given.rank; ++d) {
    if (given.sizes[d] == 0) return Number(0);
    reach = reach + Number(given.sizes[d] - 1) * Number(given.strides[d]);
  }
  return with(reach.value, (reach * Number(dtype_bytes(given.dtype)) + Number(64)).bad);
}

// Of a tensor whose memory is there.
inline u64 bytes_of(const GivenTensor& given) {
  return static_cast<u64>(reach_of(given).value * dtype_bytes(given.dtype));
}

// Uniform in -1 to 1; of integers 0 and 1, which index whatever has two elements.
inline void store_random(char* element, i32 dtype, u64& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  const double number = static_cast<double>(static_cast<i64>(state >> 11)) / 4503599627370496.0 - 1.0;
  const u64 integer = state >> 63;
  const auto single = static_cast<float>(number);
  if (dtype == 13) {
    memcpy(element, &single, sizeof single);
  } else if (dtype == 14) {
    memcpy(element, &number, sizeof number);
  } else if (dtype >= 9 && dtype <= 12) {
    codetta_engine_store(dtype, element, single);
  } else {
    memcpy(element, &integer, static_cast<u64>(dtype_bytes(dtype)));
  }
}

inline double number_at(const char* element, i32 dtype) {
  float single = 0;
  double number = 0;
  if (dtype == 13) {
    memcpy(&single, element, sizeof single);
    return static_cast<double>(single);
  }
  if (dtype == 14) {
    memcpy(&number, element, sizeof number);
    return number;
  }
  if (dtype >= 9 && dtype <= 12) return static_cast<double>(codetta_engine_load(dtype, element));
  View one;
  one.data = const_cast<char*>(element);
  one.dtype = dtype;
  return static_cast<double>(integer_in(one));
}

// From NAME.bin where that is there.
inline bool fill_given(const GivenTensor& given, char* data, u64& state) {
  const u64 bytes = bytes_of(given);
  char path[300];
  snprintf(path, sizeof path, "%s.bin", given.name);
  if (FILE* file = fopen(path, "rb")) {
    const u64 got = fread(data, 1, bytes, file);
    fclose(file);
    if (got == bytes) return true;
    fprintf(stderr, "%s has %llu bytes; %llu are wanted\n", path, static_cast<unsigned long long>(got),
            static_cast<unsigned long long>(bytes));
    return false;
  }
  const i64 size = dtype_bytes(given.dtype);
  const i64 reach = reach_of(given).value;
  for (i64 i = 0; i < reach; ++i) store_random(data + i * size, given.dtype, state);
  return true;
}

// Also to NAME.out; false where that cannot be written.
inline bool report_result(const GivenTensor& given, const char* data) {
  const u64 bytes = bytes_of(given);
  const i64 reach = reach_of(given).value;
  u64 digest = 14695981039346656037u;  // FNV-1a
  for (u64 i = 0; i < bytes; ++i) digest = (digest ^ static_cast<u8>(data[i])) * 1099511628211u;
  i64 numbers = 0, odd = 0;
  double least = 0, greatest = 0, sum = 0;
  for (i64 i = 0; i < reach; ++i) {
    const double value = number_at(data + i * dtype_bytes(given.dtype), given.dtype);
    if (!isfinite(value)) {
      ++odd;
      continue;
    }
    least = numbers == 0 || value < least ? value : least;
    greatest = numbers == 0 || value > greatest ? value : greatest;
    sum += value;
    ++numbers;
  }
  printf("%s: %lld elements of %s, %lld not finite, least %g, greatest %g, mean %g, digest %016llx\n", given.name,
         static_cast<long long>(reach), dtype_name(given.dtype), static_cast<long long>(odd), least, greatest,
         numbers == 0 ? 0.0 : sum / static_cast<double>(numbers), static_cast<unsigned long long>(digest));
  char path[300];
  snprintf(path, sizeof path, "%s.out", given.name);
  FILE* file = fopen(path, "wb");
  bool whole = file != nullptr && fwrite(data, 1, bytes, file) == bytes;
  int why = errno;
  if (file != nullptr && fclose(file) != 0 && whole) {
    whole = false;
    why = errno;
  }
  if (!whole)
    fprintf(stderr, "%s: its %llu bytes could not be written: %s\n", path, static_cast<unsigned long long>(bytes),
            strerror(why));
  return whole;
}

// Memory of the host for a tensor; null, and why, where there is none.
inline char* memory_for(const GivenTensor& given) {
  const Number reach = reach_of(given);
  if (reach.bad) {
    fprintf(stderr, "%s: its bytes exceed 2^63\n", given.name);
    return nullptr;
  }
  const u64 bytes = bytes_of(given);
  auto* data = static_cast<char*>(aligned_alloc(64, bytes / 64 * 64 + 64));
  if (data == nullptr) {
    fprintf(stderr, "%s: %llu bytes could not be allocated: %s\n", given.name, static_cast<unsigned long long>(bytes),
            strerror(errno));
    return nullptr;
  }
  memset(data, 0xA5, bytes);
  return data;
}

inline double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

#define CODETTA_GIVEN(call)                                              \
  do {                                                                   \
    if ((call) != DriverStatus::Success) {                               \
      fprintf(stderr, "a call of the GPU's driver failed: %s\n", #call); \
      return 3;                                                          \
    }                                                                    \
  } while (false)

inline int reproduce(int argc, char** argv, const GivenTensor* given, i32 count, const GivenKernel& kernel) {
  const auto number = [&](int i, long usual) { return argc > i ? strtol(argv[i], nullptr, 10) : usual; };
  u64 state = static_cast<u64>(number(1, 1));
  const long repeats = number(2, 5);
  static GpuCalls calls{};
  const bool on_gpu = kernel.load_driver != nullptr;
  if (on_gpu) {
    if (kernel.load_driver(calls) != ok) {
      fprintf(stderr, "%s\n", error_text);
      return 3;
    }
    ContextHandle context = nullptr;
    DeviceId device = 0;
    CODETTA_GIVEN(calls.device_get(&device, 0));
    CODETTA_GIVEN(calls.primary_retain(&context, device));
    CODETTA_GIVEN(calls.context_push(context));
  }
  if (kernel.init() != 0) {
    fprintf(stderr, "%s\n", kernel.error());
    return 3;
  }
  auto* tensors = static_cast<Tensor*>(calloc(static_cast<size_t>(count) + 1, sizeof(Tensor)));
  auto** host = static_cast<char**>(calloc(static_cast<size_t>(count) + 1, sizeof(char*)));
  if (tensors == nullptr || host == nullptr) {
    fprintf(stderr, "the table of %d tensors could not be allocated: %s\n", static_cast<int>(count), strerror(errno));
    return 3;
  }
  for (i32 i = 0; i < count; ++i) {
    const GivenTensor& one = given[i];
    host[i] = memory_for(one);
    if (host[i] == nullptr) return 3;
    if (!one.written && !fill_given(one, host[i], state)) return 2;
    tensors[i] = {host[i], one.dtype, one.rank, {}, {}};
    memcpy(tensors[i].shape, one.sizes, sizeof one.sizes);
    memcpy(tensors[i].strides, one.strides, sizeof one.strides);
    if (!on_gpu || one.number) continue;
    const u64 bytes = bytes_of(one);
    DeviceAddress memory = 0;
    if (calls.allocate(&memory, bytes + 1) != DriverStatus::Success) {
      fprintf(stderr, "%s: %llu bytes could not be allocated on the GPU\n", one.name,
              static_cast<unsigned long long>(bytes + 1));
      return 3;
    }
    if (bytes != 0) CODETTA_GIVEN(calls.copy_in(memory, host[i], bytes, nullptr));
    tensors[i].data = reinterpret_cast<void*>(memory);
  }
  double best = 0;
  for (long r = 0; r <= repeats; ++r) {
    const double start = seconds_now();
    if (kernel.call(tensors, count, nullptr, 0, nullptr) != 0) {
      fprintf(stderr, "%s\n", kernel.error());
      return 1;
    }
    if (on_gpu) CODETTA_GIVEN(calls.stream_wait(nullptr));
    const double took = seconds_now() - start;
    if (r == 1 || took < best) best = took;
  }
  bool whole = true;
  for (i32 i = 0; i < count; ++i) {
    if (!given[i].written) continue;
    const u64 bytes = bytes_of(given[i]);
    if (on_gpu && bytes != 0) {
      CODETTA_GIVEN(calls.copy_out(host[i], reinterpret_cast<DeviceAddress>(tensors[i].data), bytes, nullptr));
      CODETTA_GIVEN(calls.stream_wait(nullptr));
    }
    whole = report_result(given[i], host[i]) && whole;
  }
  if (repeats > 0) printf("least time of %ld calls: %.3f us, checks of the call among it\n", repeats, best * 1e6);
  if (on_gpu) {  // a driver may be gone before what the library keeps is given back
    fflush(nullptr);
    _exit(whole ? 0 : 3);
  }
  return whole ? 0 : 3;
}

}  // namespace codetta::host
