/* SPDX-License-Identifier: Apache-2.0
 * A loop and a branch around functions of the caller's: one that fills what it is given, and one that hands over memory of its
 * own, in every way in which they can fail. What was handed over is given back on each of them, or the run ends with a leak. */
#include "codetta/extern.h"

#include "loops.h"
#define LAST_ERROR loops_get_last_error
#include "checks.h"

enum { Works, Fails, WrongDtype, WrongShape, NoData };
static int mode = Works, countdown = 0;

static float element(const CodettaTensor* tensor, int64_t row, int64_t column) {
  return ((const float*)tensor->data)[row * tensor->strides[0] + column * tensor->strides[1]];
}

static int scale(void* by, const CodettaTensor* in, int inputs, CodettaTensor* out, int outputs) {
  if (inputs != 1 || outputs != 1) return 1;
  if (mode == Fails && countdown-- == 0) return 77;
  for (int64_t r = 0; r < in[0].shape[0]; ++r) {
    for (int64_t c = 0; c < 4; ++c)
      ((float*)out[0].data)[r * out[0].strides[0] + c * out[0].strides[1]] = element(&in[0], r, c) * *(const float*)by;
  }
  return 0;
}

static void release(CodettaTensor* tensor) { free(tensor->owner); }

/* The first result lies column by column. */
static int halves(void* context, const CodettaTensor* in, int inputs, CodettaTensor* out, int outputs) {
  const int64_t rows = in[0].shape[0];
  (void)context;
  if (inputs != 1 || outputs != 2) return 1;
  for (int o = 0; o < 2; ++o) {
    float* data = reals(rows * 4);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < 4; ++c) data[o == 0 ? c * rows + r : r * 4 + c] = element(&in[0], r, c) * 0.5f;
    }
    out[o].data = out[o].owner = data;
    out[o].dtype = in[0].dtype;
    out[o].rank = 2;
    out[o].shape[0] = rows;
    out[o].shape[1] = 4;
    out[o].strides[0] = o == 0 ? 1 : 4;
    out[o].strides[1] = o == 0 ? rows : 1;
    out[o].release = release;
  }
  if (mode == WrongDtype) out[1].dtype = 14;
  if (mode == WrongShape) out[1].shape[0] += 1;
  if (mode == NoData && rows > 0) out[0].data = NULL;
  return 0;
}

static int call(int64_t rows, int64_t turns, int flag) {
  float *x = reals(rows * 4), *y = reals(rows * 4), *z = reals(rows * 4);
  int64_t* count = malloc(sizeof *count);
  bool* which = malloc(sizeof *which);
  *count = turns;
  *which = flag != 0;
  const int status = loops_loops(x, count, which, y, z, rows, NULL);
  free(which), free(count), free(z), free(y), free(x);
  return status;
}

static void* calls(void* unused) {
  for (int flag = 0; flag < 2; ++flag) {
    for (int64_t rows = 0; rows < 12; rows += rows == 1 ? 6 : 1) {
      for (int64_t turns = 0; turns < 4; ++turns) CHECK(0, call(rows, turns, flag));
    }
  }
  float *x = reals(8), *y = reals(8);
  int64_t count = 1;
  bool which = true;
  CHECK(-1, loops_loops(x, NULL, &which, y, y, 2, NULL));
  CHECK(-3, loops_loops(x, &count, &which, y, y, 2, NULL));
  CHECK(-1, loops_loops(x, &count, &which, y, NULL, -2, NULL));
  free(y), free(x);
  return unused;
}

int main(void) {
  float by = 2.5f;
  CHECK(-9, call(3, 2, 1));
  SAYS("E0616");
  CHECK(0, loops_set_extern_scale(scale, &by));
  CHECK(0, loops_set_extern_halves(halves, NULL));
  in_two_threads(calls);
  for (mode = Fails; mode <= NoData; ++mode) {
    for (int after = 0; after < 3; ++after) {
      countdown = after;
      CHECK(mode == NoData ? -1 : -9, call(3, 3, 1));
    }
  }
  mode = Works;
  in_two_threads(calls);
  return 0;
}
