// The "attention_pages" kernel: attention by blocks of queries (by_blocks.h) over keys and values in pages. Constants and sizes are those of "attention", with `filled`; operands too, with K
// [pages, batch.., P, D], V likewise, and the block table [sequences, C] of i64 in front of `filled`. The first batch axis is that of sequences, and T is C * P.
#include "backend/cpu/kernels/attention/run/by_blocks.h"

namespace ingot::kernels {

std::span<const RunKernel> attention_pages_cpu_kernels() {
  static constexpr RunKernel list[] = {{"attention_pages", attention::load_paged, attention::by_blocks::resolve, attention::by_blocks::run_tasks<float, attention::PagedOperands>}};
  return list;
}

}  // namespace ingot::kernels
