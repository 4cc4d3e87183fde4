/* A kernel for the CPU: a C function in a shared library that ingot calls inside an engine (ingot.register_kernel, docs/own_kernels.md).
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

/* An argument that is not a tensor. */
typedef struct ingot_kernel_number {
  int64_t i; /* the value of an int or a bool (0 or 1) */
  double f;  /* the value of a float; for an int or a bool the same number */
} ingot_kernel_number;

typedef struct ingot_kernel_call ingot_kernel_call;
struct ingot_kernel_call {
  uint32_t abi;
  int32_t input_count, output_count, number_count;
  const ingot_tensor* inputs;         /* the operator's tensor arguments, in the order of its schema; those that it updates in place are written here */
  const ingot_tensor* outputs;        /* its results, to be filled; memory of ingot with undefined content */
  const ingot_kernel_number* numbers; /* its int, float and bool arguments, in the order of its schema */
  int32_t threads;                    /* number of threads that parallel_for uses, including this one */
  /* Calls task(k, thread, user) for every k in [0, tasks) on several threads, and returns when all are done. thread is in [0, threads); two calls at the same time
   * have different ones. Only the kernel's own thread may call it, not a task. */
  void (*parallel_for)(const ingot_kernel_call* call, int64_t tasks, void (*task)(int64_t k, int32_t thread, void* user), void* user);
  char* message;                      /* for the text of an error: at most message_bytes bytes, including the final 0 */
  size_t message_bytes;
  void* runtime;                      /* for ingot */
};

/* Returns 0, or another number on failure: then the call fails with this number and `message`.
 *
 * All tensors are row-major without gaps, and `strides` says so too. Data is aligned to its elements. No output overlaps another tensor. After the function has
 * returned, nothing in the call may be used. No exception may leave the function. Several threads may call it at the same time. It is not called if no result has
 * elements. */
typedef int (*ingot_kernel)(const ingot_kernel_call* call);

#ifdef __cplusplus
}
#endif

#endif
