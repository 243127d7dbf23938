/* SPDX-License-Identifier: Apache-2.0
 * The classifier with mapped weights: files that are none, memory and threads of the caller's, every kind of bad argument.
 * Usage: digits <weights> <file that is missing> <file that is cut off> <file whose header is damaged> */
#include "digits.h"
#define LAST_ERROR digits_get_last_error
#include "checks.h"

static void* allocate(void* self, size_t bytes, size_t alignment) {
  (void)self;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void give_back(void* self, void* memory, size_t bytes, size_t alignment) {
  (void)self, (void)bytes, (void)alignment;
  free(memory);
}
static void* nothing(void* self, size_t bytes, size_t alignment) {
  (void)self, (void)bytes, (void)alignment;
  return NULL;
}
static void run(void* self, int32_t tasks, void (*task)(void* context, int32_t index), void* context) {
  (void)self;
  for (int32_t i = tasks; i-- > 0;) task(context, i);
}

static digits_tensor tensor(float* data, int64_t rows, int64_t columns, int64_t stride) {
  digits_tensor made;
  memset(&made, 0, sizeof made);
  made.data = data;
  made.dtype = 13; /* f32 */
  made.rank = 2;
  made.shape[0] = rows;
  made.shape[1] = columns;
  made.strides[0] = stride;
  made.strides[1] = 1;
  return made;
}

static void good(int64_t batch) {
  float *x = reals(batch * 64), *scores = reals(batch * 10);
  CHECK(0, digits_classifier(x, scores, batch, NULL));
  const int64_t bytes = digits_classifier_workspace_size(batch);
  CHECK(1, bytes >= 0);
  char* memory = aligned_alloc(64, (size_t)(bytes / 64 + 1) * 64);
  digits_tensor tensors[2] = {tensor(x, batch, 64, 64), tensor(scores, batch, 10, 10)};
  CHECK(0, digits_classifier_tensors(tensors, 2, memory, bytes, NULL));
  if (bytes > 0) {
    CHECK(-5, digits_classifier_tensors(tensors, 2, memory, bytes - 1, NULL));
    CHECK(-5, digits_classifier_tensors(tensors, 2, memory + 4, bytes, NULL));
  }
  free(memory), free(scores), free(x);
  /* Rows apart: what lies between them, and behind the last one, is nobody's. */
  if (batch == 0) return;
  x = reals((batch - 1) * 70 + 64), scores = reals((batch - 1) * 12 + 10);
  tensors[0] = tensor(x, batch, 64, 70), tensors[1] = tensor(scores, batch, 10, 12);
  CHECK(0, digits_classifier_tensors(tensors, 2, NULL, 0, NULL));
  free(scores), free(x);
}

static void bad(void) {
  float *x = reals(4 * 64), *scores = reals(4 * 10);
  CHECK(-1, digits_classifier(NULL, scores, 4, NULL));
  CHECK(-1, digits_classifier(x, NULL, 4, NULL));
  CHECK(-1, digits_classifier(x, scores, -1, NULL));
  CHECK(-1, digits_classifier(x, scores, INT64_MAX, NULL));
  CHECK(-1, digits_classifier((const float*)((const char*)x + 2), scores, 4, NULL));
  CHECK(-3, digits_classifier(x, x, 4, NULL));
  CHECK(1, digits_classifier_workspace_size(-3) < 0);
  CHECK(1, digits_classifier_workspace_size(INT64_MAX) < 0);
  digits_tensor tensors[2] = {tensor(x, 4, 64, 64), tensor(scores, 4, 10, 10)};
  CHECK(-1, digits_classifier_tensors(NULL, 2, NULL, 0, NULL));
  CHECK(-1, digits_classifier_tensors(tensors, 1, NULL, 0, NULL));
  CHECK(-1, digits_classifier_tensors(tensors, -1, NULL, 0, NULL));
  tensors[0].rank = 9;
  CHECK(-1, digits_classifier_tensors(tensors, 2, NULL, 0, NULL));
  tensors[0] = tensor(x, 4, 64, 64), tensors[0].dtype = 99;
  CHECK(-1, digits_classifier_tensors(tensors, 2, NULL, 0, NULL));
  tensors[0] = tensor(x, 4, 63, 63);
  CHECK(-2, digits_classifier_tensors(tensors, 2, NULL, 0, NULL));
  tensors[0] = tensor(x, 4, 64, INT64_MAX / 2);
  CHECK(1, digits_classifier_tensors(tensors, 2, NULL, 0, NULL) < 0);
  tensors[0] = tensor(x, 4, 64, 64), tensors[1] = tensor(scores, 4, 10, 0);
  CHECK(-3, digits_classifier_tensors(tensors, 2, NULL, 0, NULL));
  free(scores), free(x);
}

static void* calls(void* unused) {
  const int64_t batches[] = {1, 2, 7, 0, 65, 300};
  for (size_t i = 0; i < sizeof batches / sizeof *batches; ++i) good(batches[i]), bad();
  return unused;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  for (int i = 2; i < argc; ++i) CHECK(-7, digits_load_weights(argv[i]));
  CHECK(-1, digits_load_weights(NULL));
  CHECK(0, digits_load_weights(argv[1]));
  CHECK(-7, digits_load_weights(argv[1]));
  in_two_threads(calls);
  CHECK(0, digits_set_allocator(allocate, give_back, NULL));
  CHECK(0, digits_set_thread_pool(3, run, NULL));
  in_two_threads(calls);
  CHECK(0, digits_set_allocator(nothing, give_back, NULL));
  digits_release_memory();
  float *x = reals(300 * 64), *scores = reals(300 * 10);
  CHECK(1, digits_classifier(x, scores, 300, NULL) < 0);
  free(scores), free(x);
  CHECK(0, digits_set_allocator(NULL, NULL, NULL));
  CHECK(0, digits_set_thread_pool(2, NULL, NULL));
  in_two_threads(calls);
  return 0;
}
