#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#include <algorithm>
#include <iterator>

#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/kernels/run/number_fields.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x4143504d;  // "MPCA"

template <class S, class A>
void fields(S& s, A& a) {
  s.text(a.name);
  s.all(a.type, a.b_type, a.map.rank, a.map.m_rank, a.map.k_rank, a.b_along_k, a.stores, a.row_rank, a.sizes);
  s.list(a.map.steps, [&](auto& step) { s.field(step); });
  s.list(a.operands, [&](auto& o) { s.all(o.dtype, o.gathered); });
  number_fields(s, a.numbers, a.known);
  s.list(a.together, [&](auto& k) { s.field(k); });
  s.list(a.merged, [&](auto& k) { s.field(k); });
  auto numbers = [&](auto& list) { s.list(list, [&](auto& n) { s.field(n); }); };
  s.list(a.sources, [&](auto& o) {
    s.all(o.dtype, o.together);
    numbers(o.dims);
    numbers(o.strides);
  });
  s.all(a.row, a.parts_of_b, a.gated);
  s.list(a.implementations, [&](auto& i) {
    s.text(i.kernel);
    s.list(i.args, [&](auto& byte) { s.field(byte); });
  });
}

void check(const GemmArgs& a) {
  auto require = require_gemm_args;
  auto possible = [](uint8_t rank) { return rank >= 1 && rank <= GemmMap::max_rank; };
  const bool floats = a.type == ir::DType::f32;
  require(floats || a.type == ir::DType::f16 || a.type == ir::DType::bf16, "type");
  const bool int8 = a.b_type == ir::DType::i8;
  require(!floats || ((a.b_type == a.type || int8) && a.parts_of_b == 1 && !a.gated && !a.has_prologue()), "what is for halves alone");
  require(a.b_type == a.type || (int8 && a.b_along_k && a.parts_of_b == 1 && a.row % 16 == 0), "type of B");
  require(possible(a.map.rank) && possible(a.map.m_rank) && possible(a.map.k_rank) && a.map.steps.size() == size_t{a.map.rank} * (a.map.m_rank + a.map.k_rank), "map");
  require(std::all_of(a.map.steps.begin(), a.map.steps.end(), [](int64_t step) { return step >= 0 && step <= INT32_MAX; }), "map");
  require(a.row_rank >= 1 && a.row_rank <= GemmMap::max_rank && (a.row_rank == 1 || (a.parts_of_b == 1 && !a.gated && !a.has_prologue())), "rows");
  require(a.sizes <= 250 && a.operands.size() <= 250 && a.stores >= 1 && a.stores <= a.operands.size(), "operands");
  for (size_t k = 0; k < a.operands.size(); ++k) {
    const auto& o = a.operands[k];
    bool store = k + a.stores >= a.operands.size();
    require(static_cast<int>(o.dtype) < ir::dtype_count && o.gathered <= (store ? 0 : gemm::tuning::max_gathered_axes), "operand");
  }
  require(a.numbers.size() <= 400, "numbers");
  std::vector<size_t> ranks;
  for (const auto& o : a.operands) ranks.push_back(size_t{a.row_rank} + 1 + o.gathered);
  require(do_exist(a.numbers, a.known, a.sizes, ranks), "number");
  for (uint8_t k : a.together) require(k < a.operands.size() && a.operands[k].gathered <= 1, "operand");
  for (uint8_t k : a.merged) require(k < a.operands.size(), "operand");
  require(a.sources.size() <= 250 && (!a.has_prologue() || (a.b_along_k && a.row > 0 && a.row % 8 == 0 && a.row <= gemm::tuning::max_prologue_row)), "the row");
  require(!a.gated || a.b_along_k, "gated columns");
  require(a.parts_of_b >= 1 && a.parts_of_b <= gemm::tuning::max_parts_of_b && (a.parts_of_b == 1 || a.b_along_k), "columns");
  require(!a.implementations.empty(), "implementations");
  for (const auto& o : a.sources) require(static_cast<int>(o.dtype) < ir::dtype_count && o.dims.size() == o.strides.size(), "operand of the row");
}

}  // namespace

void require_gemm_args(bool good, const char* what) {
  if (!good) fail(Code::format, "the arguments of a GEMM step are damaged: {}", what);
}

std::vector<std::byte> serialise(const GemmArgs& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

GemmArgs parse_gemm_cuda(std::span<const std::byte> bytes) {
  auto a = from_bytes<GemmArgs>(bytes, magic, "the arguments of a GEMM step", [](auto& stream, auto& args) { fields(stream, args); });
  check(a);
  return a;
}

}  // namespace ingot::kernels
