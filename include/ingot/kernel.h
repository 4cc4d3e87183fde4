/* What a kernel for the CPU is: a C function in a shared library that ingot calls inside an engine (ingot.register_kernel, docs/own_kernels.md).
 *
 *   int scale(const ingot_kernel_call* call) {
 *     const float* x = call->inputs[0].data;
 *     float* y = call->outputs[0].data;
 *     ...
 *     return 0;
 *   }
 */
#ifndef INGOT_KERNEL_H
#define INGOT_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "ingot/ingot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ingot_kernel_call.abi. Later versions only append fields. */
#define INGOT_KERNEL_ABI 1

/* An argument that is no tensor. */
typedef struct ingot_kernel_number {
  int64_t i; /* of an int or a bool (0 or 1) */
  double f;  /* of a float; of an int or a bool the same number */
} ingot_kernel_number;

typedef struct ingot_kernel_call ingot_kernel_call;
struct ingot_kernel_call {
  uint32_t abi;
  int32_t input_count, output_count, number_count;
  const ingot_tensor* inputs;         /* the operator's tensor arguments, in the order of its schema; those that it writes in place are written here */
  const ingot_tensor* outputs;        /* its results, to be filled; memory of ingot's, with anything in it */
  const ingot_kernel_number* numbers; /* its int, float and bool arguments, in the order of its schema */
  int32_t threads;                    /* how many threads parallel_for uses, this one included */
  /* Calls task(k, thread, user) for every k in [0, tasks), on several threads; thread is in [0, threads) and no two calls at a time share one. Returns when all are
   * done. To be called by the kernel's own thread alone, not from a task. */
  void (*parallel_for)(const ingot_kernel_call* call, int64_t tasks, void (*task)(int64_t k, int32_t thread, void* user), void* user);
  char* message;                      /* what went wrong, in words: text of at most message_bytes bytes, its final 0 included */
  size_t message_bytes;
  void* runtime;                      /* ingot's own */
};

/* Returns 0, or another number when it failed: then the call fails with that number and `message`.
 *
 * All tensors are row-major and have no gaps; `strides` says so too. Data is aligned to its elements. No output overlaps another tensor. Nothing of the call may be
 * used after the function has returned, and no exception may leave it. Several threads may call it at a time. It is not called where each result has no elements. */
typedef int (*ingot_kernel)(const ingot_kernel_call* call);

#ifdef __cplusplus
}
#endif

#endif
