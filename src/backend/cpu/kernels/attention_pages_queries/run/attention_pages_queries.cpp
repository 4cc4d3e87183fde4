// The "attention_pages_queries" kernel: attention for few queries (by_queries.h) over keys and values in pages, as "attention_pages" takes them.
#include "backend/cpu/kernels/attention_queries/run/by_queries.h"

namespace ingot::kernels {

std::span<const RunKernel> attention_pages_queries_cpu_kernels() {
  static constexpr RunKernel list[] = {{"attention_pages_queries", attention::load_paged, attention_queries::resolve, attention_queries::run_tasks<float, attention::PagedOperands>}};
  return list;
}

}  // namespace ingot::kernels
