#include "backend/cuda/kernels/implicit_gemm/product.h"

#include <algorithm>
#include <optional>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cuda {

using ir::Dim;
using ir::Dims;
using ir::DType;
using ir::Op;
using kernels::MatmulCudaArgs;

namespace {

bool is(const Dim& d, int64_t n) { return d.is_constant() && d.value() == n; }

// Whether elements along the axis are neighbours and those along the other one far enough apart, as far as the sizes are known.
bool lies(const StridedLayout& x, size_t inner, size_t outer) {
  if (!is(x.strides[inner], 1) && !is(x.dims[inner], 1)) return false;
  if (is(x.dims[outer], 1)) return true;
  const Dim &apart = x.strides[outer], &n = x.dims[inner];
  return !apart.is_constant() || (apart.value() > 0 && (!n.is_constant() || apart.value() >= n.value()));
}

bool is_matrix(const StridedLayout& x) {
  size_t last = x.dims.size() - 1;
  return lies(x, last, last - 1) || lies(x, last - 1, last);
}

// D = activation(alpha acc + residual + bias), read from the store backwards.
class Matcher {
 public:
  Matcher(const FusedBody& body, const std::vector<StridedLayout>& layouts) : b_(body), layouts_(layouts) {}

  std::optional<MatmulCudaArgs> run() {
    if (b_.stores.size() != 1) return std::nullopt;
    Reg r = b_.stores[0].value;
    // A rounding to what is stored happens anyway.
    if (code(r).kind == Instruction::Kind::map && code(r).op == Op::cast && code(r).dtype == stored()) r = code(r).in[0];
    if (code(r).kind == Instruction::Kind::map && (code(r).op == Op::relu || code(r).op == Op::gelu_tanh)) {
      args_.activation = code(r).op == Op::relu ? MatmulCudaArgs::relu : MatmulCudaArgs::gelu_tanh;
      r = code(r).in[0];
    }
    if (!sum(r)) return std::nullopt;
    return args_;
  }

 private:
  const Instruction& code(Reg r) const { return b_.code[r]; }
  DType stored() const { return b_.operands[b_.stores[0].operand]; }

  bool sum(Reg r) {
    const Instruction& i = code(r);
    if (i.kind == Instruction::Kind::accumulator) return true;
    if (i.kind != Instruction::Kind::map) return false;
    if (i.op == Op::add) return (sum(i.in[0]) && term(i.in[1])) || (sum(i.in[1]) && term(i.in[0]));
    // A factor of the product alone.
    if (i.op == Op::mul) return (scaled(i.in[0], i.in[1])) || scaled(i.in[1], i.in[0]);
    return false;
  }

  bool scaled(Reg product, Reg factor) {
    if (code(product).kind != Instruction::Kind::accumulator || code(factor).kind != Instruction::Kind::literal) return false;
    args_.alpha = code(factor).number.to_double();
    return true;
  }

  bool term(Reg r) {
    const Instruction& i = code(r);
    if (i.kind != Instruction::Kind::load || !i.in.empty() || !i.lower.empty() || b_.operands[i.operand] != stored()) return false;
    const StridedLayout& x = layouts_[i.operand];
    size_t last = b_.outer.size();
    bool row = true, whole = true;
    for (size_t d = 0; d < last; ++d) row = row && is(x.strides[d], 0);
    whole = is(x.strides[last], 1) && last > 0 && !is(x.strides[last - 1], 0) && lies(x, last, last - 1);
    row = row && is(x.strides[last], 1);
    auto operand = static_cast<uint8_t>(1 + i.operand);
    uint8_t& place = row ? args_.bias : args_.residual;
    if ((!row && !whole) || place != 0) return false;
    place = operand;
    return true;
  }

  const FusedBody& b_;
  const std::vector<StridedLayout>& layouts_;
  MatmulCudaArgs args_;
};

// Whether a walk along an axis of A certainly stays inside.
bool stays_inside(const ir::AffineMap& map, const StridedLayout& a, size_t axis) {
  const ir::AffineMap::Axis& along = map.axes[axis];
  if (!(along.offset == Dim(0)) || along.terms.size() > 1) return false;
  if (along.terms.empty()) return true;
  const Dim &extent = map.dims[along.terms[0].axis], &size = a.dims[axis];
  if (along.terms[0].coefficient == 1 && extent == size) return true;
  return extent.is_constant() && size.is_constant() && (extent.value() - 1) * along.terms[0].coefficient < size.value();
}

constexpr size_t most_beside = 200;
bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }
bool in_eights(const Dim& d) { return d.is_constant() && d.value() > 0 && d.value() % 8 == 0; }

// A plain matrix as a map, where its rows lie as the kernel reads them.
std::optional<ir::AffineMap> map_of_matrix(const Product& p) {
  if (p.batch_rank != 0 || !lies(p.a, 1, 0) || !in_eights(p.a.dims[1])) return std::nullopt;
  return ir::AffineMap{p.a.dims, {{0, {{0, 1}}}, {0, {{1, 1}}}}, std::nullopt};
}

// The map as the kernel's arguments have it, its numbers behind `sizes`; nullopt where the kernel cannot follow it.
std::optional<kernels::GemmMap> arguments_of(const Product& p, const ir::AffineMap& map, Dims& sizes) {
  constexpr size_t most = kernels::GemmMap::max_rank, together = 3;
  const size_t indices = map.dims.size();
  if (p.batch_rank != 0 || map.axes.size() > most || p.m_rank > most || indices - p.m_rank > most) return std::nullopt;
  size_t of_m = 0, of_k = 0, guards = 0;
  for (size_t i = 0; i < indices; ++i) {
    if (!is(map.dims[i], 1)) ++(i < p.m_rank ? of_m : of_k);
  }
  for (size_t j = 0; j < map.axes.size(); ++j) guards += !stays_inside(map, p.a, j);
  auto steps = map_steps(map, sizes);
  if (of_m > together || of_k > together || guards > 2 || !steps) return std::nullopt;
  return kernels::GemmMap{static_cast<uint8_t>(map.axes.size()), static_cast<uint8_t>(p.m_rank), static_cast<uint8_t>(indices - p.m_rank), std::move(*steps)};
}

// Convolutions of few channels, whose kernels are for one layout of A each: those that A may have.
std::vector<kernels::ImplicitGemmPatch> patches_of(const Product& p, const kernels::GemmMap& map, const Dims& numbers, int64_t columns) {
  const size_t indices = size_t{map.m_rank} + map.k_rank;
  std::vector<int64_t> sizes;
  for (const Dim& d : numbers) {
    if (!d.is_constant() && sizes.size() >= indices) return {};
    sizes.push_back(d.is_constant() ? d.value() : -1);
  }
  auto walk = kernels::patch_walk(map, sizes);
  if (!walk) return {};
  auto may_be = [&](int axis, int64_t stride) {
    const Dim& s = p.a.strides[static_cast<size_t>(axis)];
    return !s.is_constant() || s.value() == stride;
  };
  std::vector<kernels::ImplicitGemmPatch> out;
  auto add = [&](int last) {
    kernels::ImplicitGemmPatch s = walk->numbers;
    s.last = last;
    s.wide = static_cast<int>(std::min<int64_t>(4, (columns + 31) / 32));
    if (is_possible(s)) out.push_back(s);
  };
  if (may_be(walk->w, 1)) add(0);
  if (walk->c >= 0 && may_be(walk->c, 1) && may_be(walk->w, walk->numbers.channels)) add(1);
  return out;
}

}  // namespace

bool makes_rows(DType type, const Dim& k) { return is_half(type) && in_eights(k) && k.value() <= kernels::implicit_gemm_row_made; }
bool takes_columns_apart(DType type, bool one_row, const Dim& k, const Dims& columns) {
  if (one_row && is_half(type)) return in_eights(k) && columns.size() <= kernels::implicit_gemm_columns_apart && std::all_of(columns.begin(), columns.end(), in_eights);
  // The library multiplies by each of them. It is faster at small ones together, whose copies take little room.
  constexpr int64_t least = int64_t{8} << 20;
  const Dim row = k * Dim(static_cast<int64_t>(ir::size_of(type)));
  return ir::is_float(type) && std::all_of(columns.begin(), columns.end(), [&](const Dim& n) { return (row * n).is_constant() && (row * n).value() >= least; });
}
bool takes_halves(DType type, const Dim& columns) { return is_half(type) && in_eights(columns); }

ProductAnswer emit_product(const Product& p, const FusedBody& body, const std::vector<StridedLayout>& layouts, bool tf32) {
  using Answer = ProductAnswer;
  if (!ir::is_float(p.type)) return {Answer::refused, {}};
  if (p.map || p.made != nullptr) return {Answer::copy_a, {}};
  if (p.halves) return {Answer::body_apart, {}};
  if (!is_matrix(p.a)) return {Answer::copy_a, {}};
  if (!is_matrix(p.b) || (!p.beside.empty() && p.batch_rank > 0) || p.beside.size() > most_beside) return {Answer::copy_b, {}};
  auto args = Matcher(body, layouts).run();
  if (!args) return {Answer::body_apart, {}};
  DType stored = body.operands[body.stores[0].operand];
  bool half = is_half(p.type);
  if (stored != p.type && !(half && stored == DType::f32)) return {Answer::body_apart, {}};
  // The library's epilogues are for f32, f16 and bf16; a bias lies along rows of the result.
  bool epilogue = args->bias != 0 || args->activation != MatmulCudaArgs::none;
  const StridedLayout& d = layouts[body.stores[0].operand];
  size_t last = d.dims.size() - 1;
  if (epilogue && (p.type == DType::f64 || !lies(d, last, last - 1))) return {Answer::body_apart, {}};
  if (!is_matrix(d)) return {Answer::refused, {}};
  if (args->residual != 0 && !lies(d, last, last - 1)) return {Answer::body_apart, {}};
  // Loads that nothing uses have no place among the operands.
  if (body.operands.size() != size_t{1} + (args->bias != 0) + (args->residual != 0)) return {Answer::body_apart, {}};
  args->batch_rank = static_cast<uint8_t>(p.batch_rank);
  args->rights = static_cast<uint8_t>(1 + p.beside.size());
  args->tf32 = tf32 && p.type == DType::f32;
  return {Answer::taken, {"matmul", kernels::serialise(*args), {p.a.dims[p.batch_rank], body.row.back(), p.a.dims.back()}}};
}

OwnProduct emit_own_product(const Product& p, const FusedBody& body, const std::vector<StridedLayout>& layouts, bool large, int only) {
  using Answer = ProductAnswer;
  auto no = [](Answer::Kind kind) { return OwnProduct{{kind, {}}, {}}; };
  const Dim& n = body.row.back();
  const auto from = p.map ? p.map : map_of_matrix(p);
  Dims numbers;
  auto map = from ? arguments_of(p, *from, numbers) : std::nullopt;
  if (!is_half(p.type) || !map || body.outer.size() != 1 || body.row.size() != 1 || !in_eights(n)) return no(Answer::copy_a);
  const bool along_k = !lies(p.b, 1, 0) && lies(p.b, 0, 1);
  if (!along_k && !lies(p.b, 1, 0)) return no(Answer::copy_b);
  const bool one_row = is(p.a.dims[0], 1) && along_k && !p.map;
  if (!p.beside.empty() && !(one_row && p.beside.size() < kernels::implicit_gemm_columns_apart)) return no(Answer::copy_b);
  if (!is_of_elements(body) || (p.halves && !one_row)) return no(Answer::body_apart);
  std::optional<EmittedRow> row;
  if (p.made != nullptr && one_row) row = emit_row(*p.made, p.made_of);
  if (p.made != nullptr && !row) return no(Answer::copy_a);
  std::vector<kernels::ImplicitGemmPatch> patches;
  if (only == kernels::ImplicitGemmArgs::by_sizes) patches = patches_of(p, *map, numbers, n.value());
  OwnProduct out{{Answer::taken, {}},
                 emit_product_text({p.type, *map, along_k, p.constant, large, only, std::move(patches), 1 + p.beside.size(), p.halves, row ? &*row : nullptr}, body, layouts)};
  EmittedStep& step = out.answer.step;
  step = {"implicit_gemm", out.code.arguments, {1, n, 1}};
  for (size_t i = 0; i < from->dims.size(); ++i) step.sizes[i < p.m_rank ? 0 : 2] *= from->dims[i];
  step.sizes.insert(step.sizes.end(), numbers.begin(), numbers.end());
  step.sizes.insert(step.sizes.end(), out.code.sizes.begin(), out.code.sizes.end());
  return out;
}

}  // namespace ingot::backend::cuda
