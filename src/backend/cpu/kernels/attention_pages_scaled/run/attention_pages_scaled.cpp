// The "attention_pages_scaled" kernel: attention by blocks of queries (by_blocks.h) over keys and values of int8 in pages, as "attention_pages" takes them, with a scale for each row: those of K, [pages, batch.., P, 1], and
// those of V, in front of the block table.
#include "backend/cpu/kernels/attention/run/by_blocks.h"

namespace ingot::kernels {

std::span<const RunKernel> attention_pages_scaled_cpu_kernels() {
  static constexpr RunKernel list[] = {
      {"attention_pages_scaled", attention::load_scaled, attention::by_blocks::resolve, attention::by_blocks::run_tasks<float, attention::PagedOperands>}};
  return list;
}

}  // namespace ingot::kernels
