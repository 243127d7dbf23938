/* SPDX-License-Identifier: Apache-2.0
 * Kernels for several sizes, indices from outside, donated memory, and tensors that lie in every way: what the guards refuse, and
 * the copies behind those that they let pass. */
#include "guards.h"
#define LAST_ERROR guards_get_last_error
#include "checks.h"

static int picked(int64_t n, const int64_t* from, int64_t k) {
  float *x = reals(n * 24), *w = reals(24 * 24), *y = reals(k * 24), *z = reals(n * 24);
  int64_t* i = malloc(k > 0 ? sizeof *i * (size_t)k : 1);
  memcpy(i, from, sizeof *i * (size_t)k);
  const int status = guards_picked(x, i, w, y, z, n, k, NULL);
  free(i), free(z), free(y), free(w), free(x);
  return status;
}

static guards_tensor tensor(void* data, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  guards_tensor made;
  memset(&made, 0, sizeof made);
  made.data = data;
  made.dtype = 13; /* f32 */
  made.rank = 2;
  made.shape[0] = rows;
  made.shape[1] = columns;
  made.strides[0] = row;
  made.strides[1] = column;
  return made;
}

/* x, z donated, w, y: rows apart, transposed, backwards, one element for all. */
static void chains(int64_t n) {
  float *x = reals(n * 32), *z = reals(n * 32), *w = reals(32 * 32), *y = reals(n * 32);
  CHECK(0, guards_chain(x, z, w, y, n, NULL));
  CHECK(-3, guards_chain(x, x, w, y, n, NULL));
  CHECK(-3, guards_chain(x, z, w, z, n, NULL));
  guards_tensor tensors[4] = {tensor(x, n, 32, 32, 1), tensor(z, n, 32, 32, 1), tensor(w, 32, 32, 1, 32), tensor(y, n, 32, 1, n)};
  CHECK(0, guards_chain_tensors(tensors, 4, NULL, 0, NULL));
  tensors[2] = tensor(w + 32 * 32 - 1, 32, 32, -32, -1);
  CHECK(0, guards_chain_tensors(tensors, 4, NULL, 0, NULL));
  tensors[2] = tensor(w, 32, 32, 0, 0);
  tensors[3] = tensor(y + (n - 1) * 32, n, 32, -32, 1);
  CHECK(0, guards_chain_tensors(tensors, 4, NULL, 0, NULL));
  tensors[3] = tensor(y, n, 32, 0, 1);
  CHECK(n > 1 ? -3 : 0, guards_chain_tensors(tensors, 4, NULL, 0, NULL));
  tensors[0] = tensor(x, n, 32, 1, n);
  tensors[3] = tensor(y, n, 32, 32, 1);
  CHECK(n > 1 ? -2 : 0, guards_chain_tensors(tensors, 4, NULL, 0, NULL));
  free(y), free(w), free(z), free(x);
}

static void* calls(void* unused) {
  const int64_t good[] = {3, 0, 2, 1}, wide[] = {0, 6, 1, 0}, below[] = {-1}, far[] = {INT64_MAX};
  CHECK(0, picked(7, good, 4));
  CHECK(0, picked(7, good, 0));
  CHECK(0, picked(7, wide, 3));
  CHECK(1, picked(6, wide, 3) < 0);
  SAYS("E0618");
  CHECK(1, picked(7, below, 1) < 0);
  CHECK(1, picked(7, far, 1) < 0);
  CHECK(1, picked(0, good, 1) < 0);
  CHECK(1, picked(-1, good, 1) < 0);
  chains(1), chains(9), chains(70);
  return unused;
}

int main(void) {
  in_two_threads(calls);
  guards_release_memory();
  in_two_threads(calls);
  return 0;
}
