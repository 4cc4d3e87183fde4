// The "attention_pages_queries_scaled" kernel: attention for few queries (by_queries.h) over keys and values of int8 in pages, as "attention_pages_queries" takes them, with a scale for each row: those of K, [pages, batch.., P, 1], and
// those of V, in front of the block table.
#include "backend/cpu/kernels/attention_queries/run/by_queries.h"

namespace ingot::kernels {

std::span<const RunKernel> attention_pages_queries_scaled_cpu_kernels() {
  static constexpr RunKernel list[] = {
      {"attention_pages_queries_scaled", attention::load_scaled, attention_queries::resolve, attention_queries::run_tasks<float, attention::PagedOperands>}};
  return list;
}

}  // namespace ingot::kernels
