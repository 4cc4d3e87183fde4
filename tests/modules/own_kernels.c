/* Kernels for test_own_kernels.py. */
#include "ingot/kernel.h"

#include <stdio.h>

static int64_t numel(const ingot_tensor* t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; ++d) n *= t->dims[d];
  return n;
}

/* 1 where a tensor is not as kernel.h promises. */
static int lies_otherwise(const ingot_tensor* t) {
  int64_t step = 1;
  for (int d = t->rank; d-- > 0;) {
    if (t->strides[d] != step) return 1;
    step *= t->dims[d];
  }
  return 0;
}

static int refuse(const ingot_kernel_call* call, const char* what) {
  snprintf(call->message, call->message_bytes, "%s", what);
  return 3;
}

struct work {
  const float* x;
  float* y;
  int64_t n;
  float factor;
};

static void part(int64_t k, int32_t thread, void* user) {
  const struct work* w = user;
  const int64_t parts = 8;
  (void)thread;
  for (int64_t i = k * w->n / parts; i < (k + 1) * w->n / parts; ++i) w->y[i] = w->factor * w->x[i];
}

/* scale(Tensor x, float factor, int times, bool negate): factor^times * x, on several threads */
int scale(const ingot_kernel_call* call) {
  struct work w = {call->inputs[0].data, call->outputs[0].data, numel(&call->inputs[0]), call->numbers[2].i ? -1.0f : 1.0f};
  if (call->abi < INGOT_KERNEL_ABI || call->number_count != 3 || call->threads < 1) return refuse(call, "an odd call");
  if (lies_otherwise(&call->inputs[0]) || lies_otherwise(&call->outputs[0])) return refuse(call, "a tensor that is not row-major");
  if (w.n == 0) return refuse(call, "called for nothing");
  for (int64_t k = 0; k < call->numbers[1].i; ++k) w.factor *= (float)call->numbers[0].f;
  call->parallel_for(call, 8, part, &w);
  return 0;
}

/* split(Tensor x): each row's sum, and where its first element of 0 or more is (int32; -1: nowhere) */
int split(const ingot_kernel_call* call) {
  const int64_t rows = call->inputs[0].dims[0], columns = call->inputs[0].dims[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = (const float*)call->inputs[0].data + r * columns;
    float sum = 0;
    int32_t found = -1;
    for (int64_t c = 0; c < columns; ++c) {
      sum += x[c];
      if (found < 0 && x[c] >= 0) found = (int32_t)c;
    }
    ((float*)call->outputs[0].data)[r] = sum;
    ((int32_t*)call->outputs[1].data)[r] = found;
  }
  return 0;
}

/* turn(Tensor x): its bytes' elements from last to first, of any type of 1 or 2 bytes */
int turn(const ingot_kernel_call* call) {
  const int64_t n = numel(&call->inputs[0]);
  const int wide = call->inputs[0].dtype == INGOT_FLOAT16 || call->inputs[0].dtype == INGOT_BFLOAT16;
  const uint8_t* x = call->inputs[0].data;
  uint8_t* y = call->outputs[0].data;
  for (int64_t i = 0; i < n; ++i) {
    for (int b = 0; b <= wide; ++b) y[i * (1 + wide) + b] = x[(n - 1 - i) * (1 + wide) + b];
  }
  return 0;
}

/* add_to(Tensor x, Tensor(a!) to, float factor) -> Tensor: to += factor * x; the new sum. Without a result: the same */
int add_to(const ingot_kernel_call* call) {
  const float* x = call->inputs[0].data;
  float *to = call->inputs[1].data, sum = 0;
  for (int64_t i = 0; i < numel(&call->inputs[1]); ++i) sum += to[i] += (float)call->numbers[0].f * x[i];
  if (call->output_count > 0) *(float*)call->outputs[0].data = sum;
  return 0;
}

int fails(const ingot_kernel_call* call) { return refuse(call, "it is Monday"); }
