/* SPDX-License-Identifier: Apache-2.0
 * Functions of the caller's inside of a program. Plain C: compiled libraries and every language that can make a C
 * function pointer meet here. */
#ifndef CODETTA_EXTERN_H
#define CODETTA_EXTERN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CODETTA_MAX_RANK = 8 };

/* A tensor by value; whoever hands it over keeps the memory. Strides count elements. A scalar is a tensor of rank 0. */
typedef struct CodettaTensor {
  void* data;
  int64_t shape[CODETTA_MAX_RANK];
  int64_t strides[CODETTA_MAX_RANK];
  int32_t rank;
  int32_t dtype;  /* codetta::DType: bool 0, i8 1, i16 2, i32 3, i64 4, u8 5, u16 6, u32 7, u64 8, f8e4m3 9, f8e5m2 10,
                     f16 11, bf16 12, f32 13, f64 14 */
  int32_t device; /* as the program counts devices; 0 on a CPU */
  int32_t reserved;
  /* Outputs of an alloc-form call: called once when the program no longer needs the memory; NULL: nothing is to be
     done. On a GPU that is in the order of the stream: work that was enqueued before may still read it, so that memory
     goes back behind that work (cudaFreeAsync on the stream, or an event). `owner` is the function's own. What a
     program on a GPU hands over has its stream there. */
  void (*release)(struct CodettaTensor* tensor);
  void* owner;
} CodettaTensor;

/* Out-form: outputs have memory, the function fills it and changes nothing else. Alloc-form: outputs are zero but for
 * `device`; the function sets data, shape, strides, rank, dtype, and release where memory is to be given back, also
 * when it fails. On a GPU `data` is device memory (of a number, of rank 0, host memory that is gone when the
 * function returns, so that nothing enqueued may read it), the device's context is current, and the function enqueues
 * its work on the stream that the tensors' `owner` is (CUstream, hipStream_t), behind what writes its inputs, and
 * returns. Inputs are never written. Returns 0, or a code of its own, which the caller of the program is told. Thread
 * safety: executions of several threads may call it at the same time with the same context. */
typedef int (*CodettaExtern)(void* context, const CodettaTensor* inputs, int input_count, CodettaTensor* outputs,
                             int output_count);

#ifdef __cplusplus
}
#endif

#endif /* CODETTA_EXTERN_H */
