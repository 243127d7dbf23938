/* SPDX-License-Identifier: Apache-2.0
 * What the sanitizers have to find: `row` and `short` write behind a block (a kernel of the user's, and a kernel of Codetta's by an
 * output without room), `leak` and `shift` are in the kernel, `race` is two calls with one output. `none` is none of them.
 * Usage: planted none|row|leak|shift|short|race */
#include "planted.h"
#define LAST_ERROR planted_get_last_error
#include "checks.h"

static float *x, *y, mode;
static int64_t size = 40;

static void* call(void* unused) {
  for (int i = 0; i < 500; ++i) CHECK(0, planted_planted(x, mode, y, size, NULL));
  return unused;
}

int main(int argc, char** argv) {
  const char* what = argc == 2 ? argv[1] : "";
  mode = strcmp(what, "row") == 0 ? 1.0f : strcmp(what, "leak") == 0 ? 2.0f : strcmp(what, "shift") == 0 ? 3.0f : 0.0f;
  /* Calls that take longer than a thread is left alone: in between, the library's lock of workspaces puts them in an order. */
  if (strcmp(what, "race") == 0) size = 40000;
  x = reals(size), y = reals(strcmp(what, "short") == 0 ? size - 1 : size);
  CHECK(0, planted_set_thread_pool(1, NULL, NULL));
  if (strcmp(what, "race") == 0) {
    pthread_t other;
    if (pthread_create(&other, NULL, call, NULL) != 0) return 1;
    call(NULL);
    pthread_join(other, NULL);
  } else {
    call(NULL);
  }
  free(y), free(x);
  return 0;
}
