/* Loads a plan, runs it on ones and prints the first values of each output.
 *
 *   cmake --install build/release --prefix /opt/ingot
 *   export PKG_CONFIG_PATH=/opt/ingot/lib/pkgconfig LD_LIBRARY_PATH=/opt/ingot/lib
 *   cc run_plan.c -o run_plan $(pkg-config --cflags --libs ingot_runtime)
 *   ./run_plan model.ingot             # every input at its usual size
 *   ./run_plan model.ingot 3,16 3      # sizes of the inputs, in their order
 */
#include <ingot/ingot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ingot_status status) {
  const ingot_error* e = ingot_last_error();
  if (status == INGOT_OK) return;
  fprintf(stderr, "%s\n", e->message);
  if (*e->origin) fprintf(stderr, "  at %s\n", e->origin);
  if (*e->remedy) fprintf(stderr, "  remedy: %s\n", e->remedy);
  exit(1);
}

static const size_t sizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8}; /* by ingot_dtype */

static size_t count(const ingot_tensor* t) {
  size_t n = 1;
  for (int32_t d = 0; d < t->rank; ++d) n *= (size_t)t->dims[d];
  return n;
}

static void* memory(size_t bytes) {
  void* p = calloc(bytes > 0 ? bytes : 1, 1);
  if (p == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  return p;
}

static void fill_with_ones(ingot_tensor* t) {
  for (size_t i = 0, n = count(t); i < n; ++i) {
    switch (t->dtype) {
      case INGOT_FLOAT64: ((double*)t->data)[i] = 1; break;
      case INGOT_FLOAT32: ((float*)t->data)[i] = 1; break;
      case INGOT_FLOAT16: ((uint16_t*)t->data)[i] = 0x3c00; break;
      case INGOT_BFLOAT16: ((uint16_t*)t->data)[i] = 0x3f80; break;
      default: ((char*)t->data)[i * sizes[t->dtype]] = 1; /* an integer's lowest byte */
    }
  }
}

static void print_value(const ingot_tensor* t, size_t i) {
  switch (t->dtype) {
    case INGOT_FLOAT64: printf(" %g", ((double*)t->data)[i]); break;
    case INGOT_FLOAT32: printf(" %g", ((float*)t->data)[i]); break;
    case INGOT_INT64: printf(" %lld", (long long)((int64_t*)t->data)[i]); break;
    case INGOT_INT32: printf(" %d", ((int32_t*)t->data)[i]); break;
    case INGOT_INT16: printf(" %d", ((int16_t*)t->data)[i]); break;
    case INGOT_INT8: printf(" %d", ((int8_t*)t->data)[i]); break;
    case INGOT_UINT8:
    case INGOT_BOOL: printf(" %u", ((uint8_t*)t->data)[i]); break;
    default: printf(" 0x%04x", ((uint16_t*)t->data)[i]); /* half types: their bits */
  }
}

int main(int argc, char** argv) {
  ingot_plan* plan;
  ingot_weights* weights;
  ingot_session* session;
  size_t input_count, output_count;
  if (argc < 2) {
    fprintf(stderr, "usage: run_plan PLAN [SIZES OF AN INPUT]...\n");
    return 2;
  }
  check(ingot_plan_load(argv[1], &plan));
  check(ingot_weights_create(plan, NULL, &weights));
  check(ingot_session_create(plan, weights, 0, NULL, &session));
  check(ingot_plan_count(plan, 0, &input_count, &output_count));

  ingot_tensor* inputs = memory(input_count * sizeof *inputs);
  for (size_t i = 0; i < input_count; ++i) {
    ingot_binding b;
    check(ingot_plan_input(plan, 0, i, &b));
    int64_t* dims = memory((size_t)b.rank * sizeof *dims);
    memcpy(dims, b.dims, (size_t)b.rank * sizeof *dims);
    if (i + 2 < (size_t)argc) {
      char* at = argv[i + 2];
      for (int32_t d = 0; d < b.rank; ++d) dims[d] = strtoll(at + (*at == ','), &at, 10);
    }
    inputs[i] = (ingot_tensor){NULL, b.dtype, b.rank, dims, NULL};
  }
  check(ingot_session_resolve(session, inputs, input_count)); /* checks the sizes, so the memory for them comes after it */
  for (size_t i = 0; i < input_count; ++i) {
    inputs[i].data = memory(count(&inputs[i]) * sizes[inputs[i].dtype]);
    fill_with_ones(&inputs[i]);
  }

  ingot_tensor* outputs = memory(output_count * sizeof *outputs);
  for (size_t i = 0; i < output_count; ++i) {
    ingot_binding b;
    check(ingot_plan_output(plan, 0, i, &b));
    outputs[i].dtype = b.dtype;
    check(ingot_session_output(session, i, &outputs[i].rank, &outputs[i].dims));
    outputs[i].data = memory(count(&outputs[i]) * sizes[b.dtype]);
  }
  check(ingot_session_run_with(session, inputs, input_count, outputs, output_count));

  for (size_t i = 0; i < output_count; ++i) {
    printf("output %zu [", i);
    for (int32_t d = 0; d < outputs[i].rank; ++d) printf(d ? ", %lld" : "%lld", (long long)outputs[i].dims[d]);
    printf("]:");
    for (size_t k = 0; k < count(&outputs[i]) && k < 8; ++k) print_value(&outputs[i], k);
    printf("\n");
    free(outputs[i].data);
  }
  for (size_t i = 0; i < input_count; ++i) {
    free(inputs[i].data);
    free((void*)inputs[i].dims);
  }
  free(inputs);
  free(outputs);
  ingot_session_release(session);
  ingot_weights_release(weights);
  ingot_plan_release(plan);
  return 0;
}
