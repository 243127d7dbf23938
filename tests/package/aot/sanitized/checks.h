/* SPDX-License-Identifier: Apache-2.0
 * What the programs of this folder share. Tensors are blocks of malloc of their exact size, so that a sanitizer sees
 * the first byte beside them; calls run in the main thread first, and then in two at once. */
#ifndef CODETTA_TESTS_SANITIZED_CHECKS_H
#define CODETTA_TESTS_SANITIZED_CHECKS_H
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LAST_ERROR is the library's function for the text of the calling thread's last failure. */
#define CHECK(wanted, call)                                                                     \
  do {                                                                                          \
    const long long got = (call);                                                               \
    if (got != (wanted)) {                                                                      \
      fprintf(stderr, "%s:%d: %s is %lld: %s\n", __FILE__, __LINE__, #call, got, LAST_ERROR()); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)
#define SAYS(text)                                                                          \
  do {                                                                                      \
    if (strstr(LAST_ERROR(), text) == NULL) {                                               \
      fprintf(stderr, "%s:%d: %s is not in: %s\n", __FILE__, __LINE__, text, LAST_ERROR()); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

static inline float* reals(int64_t count) {
  float* data = malloc(count > 0 ? sizeof(float) * (size_t)count : 1);
  for (int64_t i = 0; data != NULL && i < count; ++i) data[i] = (float)((i * 37 + count) % 23 - 11) / 8.0f;
  return data;
}

static inline void in_two_threads(void* (*calls)(void*)) {
  pthread_t threads[2];
  calls(NULL);
  for (int t = 0; t < 2; ++t) {
    if (pthread_create(&threads[t], NULL, calls, NULL) != 0) exit(1);
  }
  for (int t = 0; t < 2; ++t) pthread_join(threads[t], NULL);
}
#endif
