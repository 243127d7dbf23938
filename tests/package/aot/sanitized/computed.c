/* SPDX-License-Identifier: Apache-2.0
 * Sizes that values give: outputs that a call fills in part, with room for exactly that and with too little, and memory that is
 * allocated once the size is known. */
#include "computed.h"
#define LAST_ERROR computed_get_last_error
#include "checks.h"

static int parted(int64_t n, int64_t k, int64_t room, int64_t rest_rows, int64_t rest_columns) {
  float *x = reals(n * 8), *w = reals(64), *y = reals(room * 8), *rest = reals(rest_rows * rest_columns);
  int64_t* size = malloc(sizeof *size);
  *size = k;
  const int status = computed_parted(x, size, w, y, rest, n, room, rest_rows, rest_columns, NULL);
  if (status == 0) {
    int64_t* told = malloc(3 * sizeof *told);
    CHECK(0, computed_parted_output_sizes(told, 3));
    CHECK(1, told[0] == k && told[1] == n - k && told[2] == k / 2);
    CHECK(-1, computed_parted_output_sizes(told, 2));
    CHECK(-1, computed_parted_output_sizes(NULL, 3));
    free(told);
  }
  free(size), free(rest), free(y), free(w), free(x);
  return status;
}

static int sized(int64_t n, int64_t a, int64_t k) {
  float *x = reals(n * 8), *w = reals(64), *z = reals(8), *out = reals(n * 8);
  int64_t* size = malloc(sizeof *size);
  int32_t* m = malloc(sizeof *m);
  *size = k;
  const int status = computed_sized(x, size, a, w, z, out, m, n, NULL);
  free(m), free(size), free(out), free(z), free(w), free(x);
  return status;
}

static void* calls(void* unused) {
  const int64_t sizes[] = {16, 5, 0, 9, 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const int64_t k = sizes[i];
    CHECK(0, parted(16, k, k, 16 - k, k / 2));
    CHECK(0, parted(16, k, 20, 17, 11));
    if (k > 0) CHECK(-2, parted(16, k, k - 1, 16, 8));
    if (k > 1) CHECK(-2, parted(16, k, k, 16, k / 2 - 1));
  }
  CHECK(1, parted(16, 17, 20, 16, 8) < 0);
  CHECK(1, parted(16, -1, 20, 16, 8) < 0);
  CHECK(1, parted(16, INT64_MIN, 20, 16, 8) < 0);
  CHECK(1, parted(16, INT64_MAX, 20, 16, 8) < 0);
  CHECK(0, sized(12, 2, 9));
  CHECK(0, sized(12, 0, 12));
  CHECK(0, sized(12, 4, 4));
  CHECK(1, sized(12, 2, 13) < 0);
  CHECK(1, sized(12, 4, 3) < 0);
  CHECK(1, sized(12, -2, 5) < 0);
  CHECK(1, sized(12, INT64_MIN, INT64_MAX) < 0);
  CHECK(0, parted(100, 16, 16, 84, 8));
  return unused;
}

int main(void) {
  in_two_threads(calls);
  computed_release_memory();
  in_two_threads(calls);
  return 0;
}
