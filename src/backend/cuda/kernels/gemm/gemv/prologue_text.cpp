#include "backend/cuda/kernels/gemm/gemv/prologue_text.h"

#include <algorithm>

#include "backend/cuda/compile/kernel_text.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/gemv/run/tuning.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::backend::cuda {

using Args = kernels::FusedCudaArgs;
using Source = kernels::GemmArgs::Source;

namespace {

// All threads of the block take units of the row. A short row that is reduced stays in registers; otherwise a few units are loaded at a time.
Args::Variant units_of(const FusedBody& b, const Walk& w, int64_t length, int unit) {
  constexpr int64_t threads = kernels::gemv_threads;
  int64_t bytes = 0;
  for (size_t k = 0; k < b.code.size(); ++k) {
    if (b.code[k].kind == Instruction::Kind::load && w.level[k] == Level::element) bytes += static_cast<int64_t>(ir::size_of(b.operands[b.code[k].operand]));
  }
  auto over = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
  const int64_t each = over(length / unit, threads), together = std::max<int64_t>(1, kernels::gemm::gemv_tuning::loaded_registers / std::max<int64_t>(1, over(bytes * unit, 4)));
  Args::Variant v;
  v.mapping = Args::Variant::block;
  v.threads = static_cast<uint16_t>(threads);
  v.vector = static_cast<uint8_t>(unit);
  v.reread = !w.rows || each * unit > kernels::gemm::gemv_tuning::max_elements_of_thread;
  v.units = static_cast<uint8_t>(v.reread ? over(each, over(each, together)) : each);
  return v;
}

}  // namespace

std::optional<EmittedPrologue> emit_prologue(const FusedBody& body, const std::vector<StridedLayout>& layouts) {
  EmittedPrologue out;
  const size_t loads = body.operands.size() - 1;
  if (body.stores.size() != 1 || loads == 0 || loads > kernels::max_operands || !known_sizes(body.row)) return std::nullopt;
  out.length = 1;
  for (const ir::Dim& d : body.row) out.length *= d.value();
  // The row must be stored whole and contiguously.
  ir::Dim step = 1;
  for (size_t d = layouts[loads].dims.size(); d-- > 0;) {
    const ir::Dim& n = layouts[loads].dims[d];
    const ir::Dim& wanted = d < body.outer.size() ? ir::Dim(1) : body.row[d - body.outer.size()];
    if (!(n == wanted) || !(n == ir::Dim(1) || layouts[loads].strides[d] == step)) return std::nullopt;
    step *= n;
  }
  Walk walk = make_walk(body, layouts);
  // Scattered single elements are better loaded once, by a step of their own.
  if (walk.unit == 1) return std::nullopt;
  for (size_t k = 0; k < loads; ++k) {
    auto dims = known_sizes(layouts[k].dims), strides = known_sizes(layouts[k].strides);
    if (!dims || !strides) return std::nullopt;
    out.sources.push_back({body.operands[k], walk.vector[k] != 0, std::move(*dims), std::move(*strides)});
  }
  Args args;
  Numbers numbers(args);
  std::vector<ir::Dim> sizes;
  out.text = fmt::format("struct @Made {{ u64 status; void* pointer[{}]; i64 number[1]; }};\ntemplate <bool Together>\nstruct @Front;\n", loads);
  for (bool together : {true, false}) {
    const Args::Variant v = units_of(body, walk, out.length, together ? walk.unit : 1);
    out.text += fmt::format(
        "template <>\nstruct @Front<{}> {{\n  static constexpr bool made = true;\n  const @Made& p;\n  __device__ __forceinline__ void operator()({}* made_row) const {{\n",
        together, ir::name_of(body.operands[loads]));
    out.text += row_text(body, layouts, walk, v, "made_row", numbers, sizes) + "  }\n};\n";
  }
  if (!args.numbers.empty() || !sizes.empty()) return std::nullopt;
  return out;
}

}  // namespace ingot::backend::cuda
