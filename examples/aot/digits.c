/* SPDX-License-Identifier: Apache-2.0
 * Handwritten digits without Codetta: a C program on a library that `codetta build` made.
 *
 *   codetta build ../digits/classifier.py -o libdigits.so --weights ../digits/digits.safetensors --embed-weights
 *   cc digits.c -o digits -L. -ldigits -Wl,-rpath,'$ORIGIN' && ./digits ../digits
 *
 * Exits with 1 below 96 % accuracy. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "digits.h"

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The data of a NumPy file of version 1: 10 bytes, the length of the header among them, then the header. */
static void* read_npy(const char* folder, const char* name, size_t* bytes) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  unsigned char start[10];
  void* data = NULL;
  if (fread(start, 1, 10, file) == 10) {
    const long begin = 10L + start[8] + 256L * start[9];
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)(ftell(file) - begin);
    fseek(file, begin, SEEK_SET);
    data = malloc(*bytes);
    if (data != NULL && fread(data, 1, *bytes, file) != *bytes) {
      free(data);
      data = NULL;
    }
  }
  fclose(file);
  return data;
}

int main(int argc, char** argv) {
  const char* folder = argc > 1 ? argv[1] : ".";
  size_t image_bytes = 0, label_bytes = 0;
  float* images = read_npy(folder, "held_out_images.npy", &image_bytes);
  unsigned char* labels = read_npy(folder, "held_out_labels.npy", &label_bytes);
  const int64_t count = (int64_t)label_bytes;
  float* scores = malloc(sizeof(float) * 10 * label_bytes);
  if (images == NULL || labels == NULL || scores == NULL) {
    fprintf(stderr, "the images of %s cannot be read\n", folder);
    return 1;
  }
  if (count == 0 || image_bytes != sizeof(float) * 64 * label_bytes) {
    fprintf(stderr, "%s has %zu bytes of images for %zu labels; an image has 256\n", folder, image_bytes, label_bytes);
    return 1;
  }

  if (digits_abi_version() != DIGITS_ABI_VERSION) {
    fprintf(stderr, "digits.h and libdigits.so do not belong together\n");
    return 1;
  }
  const double start = now_us();
  int failed = digits_classifier(images, scores, 1, NULL); /* one image */
  const double first = now_us() - start;
  if (failed == 0) failed = digits_classifier(images, scores, count, NULL);
  if (failed != 0) {
    fprintf(stderr, "%s\n", digits_get_last_error());
    return 1;
  }

  int64_t right = 0;
  for (int64_t i = 0; i < count; ++i) {
    int best = 0;
    for (int c = 1; c < 10; ++c) {
      if (scores[i * 10 + c] > scores[i * 10 + best]) best = c;
    }
    right += best == labels[i];
  }

  double fastest = 1e30;
  for (int i = 0; i < 1000; ++i) {
    const double begin = now_us();
    digits_classifier(images, scores, 1, NULL);
    const double took = now_us() - begin;
    if (took < fastest) fastest = took;
  }
  printf("%s: %lld of %lld held-out digits right; first call %.1f us, one image then %.2f us\n", digits_version(),
         (long long)right, (long long)count, first, fastest);
  free(images);
  free(labels);
  free(scores);
  return (double)right >= 0.96 * (double)count ? 0 : 1;
}
