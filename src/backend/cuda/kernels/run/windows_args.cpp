#include "backend/cuda/kernels/run/windows_args.h"

#include "backend/cuda/kernels/run/number_fields.h"

namespace ingot::kernels {

namespace {

template <class S, class A>
void list_fields(S& s, A& a) {
  s.text(a.name);
  s.all(a.rank, a.kept, a.summed, a.stores, a.vector, a.tile, a.sizes);
  s.list(a.steps, [&](auto& step) { s.field(step); });
  s.list(a.unguarded, [&](auto& axis) { s.field(axis); });
  s.list(a.operands, [&](auto& o) { s.all(o.dtype, o.vector); });
  number_fields(s, a.numbers, a.known);
}

}  // namespace

void window_fields(FieldWriter& s, const WindowArgs& a) { list_fields(s, a); }
void window_fields(FieldReader& s, WindowArgs& a) { list_fields(s, a); }

void require_window_args(bool good, std::string_view kernel, std::string_view what) {
  if (!good) fail(Code::format, "the arguments of a {} step for CUDA are damaged: {}", kernel, what);
}

void check_windows(const WindowArgs& a, std::string_view kernel, size_t rank_of_b, size_t rank_of_body) {
  auto require = [&](bool good, const char* what) { require_window_args(good, kernel, what); };
  require(a.rank >= 1 && a.rank <= WindowArgs::max_rank && a.kept >= 2 && a.kept <= WindowArgs::max_rank && a.summed <= WindowArgs::max_rank, "ranks");
  require(a.steps.size() == a.rank * a.indices(), "map");
  for (int64_t step : a.steps) require(step >= 0 && step <= INT32_MAX, "map");
  for (uint8_t axis : a.unguarded) require(axis < a.rank, "map");
  require(a.vector >= 1 && a.vector <= 8 && a.tile >= 1 && a.tile <= 8, "tile");
  require(a.sizes >= a.indices() + a.rank && a.sizes <= 250, "sizes");
  require(a.stores >= 1 && a.operands.size() >= size_t{2} + a.stores && a.operands.size() <= 250, "operands");
  for (const auto& o : a.operands) require(static_cast<int>(o.dtype) < ir::dtype_count && o.vector >= 1 && o.vector <= 16, "operand");
  const ir::DType type = a.operands[0].dtype;
  require(type == ir::DType::f32 || type == ir::DType::f16 || type == ir::DType::bf16, "type");
  std::vector<size_t> ranks(a.operands.size(), rank_of_body);
  ranks[0] = a.rank, ranks[1] = rank_of_b;
  require(do_exist(a.numbers, a.known, a.sizes, ranks), "number");
}

void check_window_counts(const WindowArgs& a, std::string_view kernel, size_t operands, size_t sizes) {
  if (a.operands.size() == operands && a.sizes == sizes) return;
  fail(Code::format, "a {} step has {} operands and {} sizes, its arguments {} and {}", kernel, operands, sizes, a.operands.size(), a.sizes);
}

}  // namespace ingot::kernels
