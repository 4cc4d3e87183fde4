// Offers the GEMMs that cuBLASLt can do, with as much of the epilogue as it takes.
#include <algorithm>
#include <optional>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/gemm/gemm_site.h"
#include "backend/cuda/kernels/matmul/run/matmul_args.h"
#include "backend/cuda/kernels/matmul/run/tuning.h"

namespace ingot::backend::cuda {

using ir::Dim;
using ir::DType;
using ir::Op;
using kernels::MatmulCudaArgs;

bool is_contiguous_along(const StridedLayout& x, size_t inner, size_t outer) {
  if (!is(x.strides[inner], 1) && !is(x.dims[inner], 1)) return false;
  if (is(x.dims[outer], 1)) return true;
  const Dim &outer_stride = x.strides[outer], &n = x.dims[inner];
  return !outer_stride.is_constant() || (outer_stride.value() > 0 && (!n.is_constant() || outer_stride.value() >= n.value()));
}

namespace {

bool is_matrix(const StridedLayout& x) {
  size_t last = x.dims.size() - 1;
  return is_contiguous_along(x, last, last - 1) || is_contiguous_along(x, last - 1, last);
}

// Matches D = activation(alpha acc + residual + bias), backwards from the store.
class Matcher {
 public:
  Matcher(const FusedBody& body, const std::vector<StridedLayout>& layouts) : b_(body), layouts_(layouts) {}

  std::optional<MatmulCudaArgs> run() {
    if (b_.stores.size() != 1) return std::nullopt;
    Reg r = b_.stores[0].value;
    // A cast to the stored type happens anyway.
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
    // A factor of the product only.
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
    whole = is(x.strides[last], 1) && last > 0 && !is(x.strides[last - 1], 0) && is_contiguous_along(x, last, last - 1);
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

}  // namespace

GemmAnswer library_gemm(const Gemm& g, const FusedBody& body, const std::vector<StridedLayout>& layouts, bool tf32) {
  if (!ir::is_float(g.type)) return refusal(Obstacle::types, "for floating-point numbers");
  if (g.encoding || g.row_ends != nullptr) return refusal(Obstacle::b, "B is of A's type, and one for all rows");
  if (g.map || g.prologue) return refusal(Obstacle::a, "A is read from memory, as a matrix");
  if (g.gated) return refusal(Obstacle::body, "the body sees one column at a time");
  if (!is_matrix(g.a)) return refusal(Obstacle::a, "A is contiguous along no axis");
  if (!is_matrix(g.b[0]) || (g.b.size() > 1 && g.batch_rank > 0) || g.b.size() > kernels::matmul_cuda_tuning::max_parts_of_b)
    return refusal(Obstacle::b, "B is contiguous along no axis, or has too many parts");
  auto args = Matcher(body, layouts).run();
  if (!args) return refusal(Obstacle::body, "the library's epilogues are a factor, a bias, a residual, ReLU and GELU (tanh)");
  DType stored = body.operands[body.stores[0].operand];
  if (stored != g.type && !(is_half(g.type) && stored == DType::f32)) return refusal(Obstacle::body, "the result has another type");
  // The library has epilogues for f32, f16 and bf16, and a bias along rows of the result.
  bool epilogue = args->bias != 0 || args->activation != MatmulCudaArgs::none;
  const StridedLayout& d = layouts[body.stores[0].operand];
  size_t last = d.dims.size() - 1;
  if (epilogue && (g.type == DType::f64 || !is_contiguous_along(d, last, last - 1)))
    return refusal(Obstacle::body, "no epilogue for this type, or rows of the result that are not contiguous");
  if (!is_matrix(d)) return refusal(Obstacle::types, "the result is contiguous along no axis");
  if (args->residual != 0 && !is_contiguous_along(d, last, last - 1)) return refusal(Obstacle::body, "rows of the result are not contiguous");
  // Unused loads cannot be operands.
  if (body.operands.size() != size_t{1} + (args->bias != 0) + (args->residual != 0)) return refusal(Obstacle::body, "the body loads more");
  args->batch_rank = static_cast<uint8_t>(g.batch_rank);
  args->parts_of_b = static_cast<uint8_t>(g.b.size());
  args->tf32 = tf32 && g.type == DType::f32;
  return {std::nullopt, {}, [&g, &body, args = *args] {
            EmittedStep step{"matmul", kernels::serialise(args), {g.a.dims[g.batch_rank], body.row.back(), g.a.dims.back()}};
            return step;
          }};
}

namespace {

// For a sketch.
std::optional<Refusal> obstacle(const Gemm& g) {
  constexpr std::string_view name = "cublaslt";
  if (!ir::is_float(g.type)) return Refusal{name, Obstacle::types, "for floating-point numbers"};
  if (g.encoding || g.row_ends != nullptr) return Refusal{name, Obstacle::b, "B is of A's type, and one for all rows"};
  if (g.map || g.prologue) return Refusal{name, Obstacle::a, "A is read from memory, as a matrix"};
  if (g.gated) return Refusal{name, Obstacle::body, "the body sees one column at a time"};
  if (g.b.size() > 1 && (has_one_row(g) && is_half(g.type))) return Refusal{name, Obstacle::b, "B in parts, for one row, is read once by ingot's kernel"};
  if (g.b.size() > 1 && !has_large_parts_of_b(g)) return Refusal{name, Obstacle::b, "parts of less than 8 MiB are faster as one matrix"};
  return std::nullopt;
}

}  // namespace

// A body that it does not take costs a pass.
void matmul_offers(const Site& site, const Target& target, const Settings& settings, Offers& out) {
  constexpr std::string_view name = "cublaslt";
  const auto g = gemm_of(site);
  if (g == nullptr) return;
  const double cost = kernels::cost_of_library(gemm_sizes(site, *g, target, settings));
  if (!is_placed(g->a)) {
    if (auto refused = obstacle(*g)) {
      out.refusals.push_back(std::move(*refused));
    } else {
      out.offers.push_back({.implementation = name, .cost = cost, .wishes = {channels_innermost, even_rows}});
    }
    return;
  }
  GemmAnswer answer = library_gemm(*g, *site.body, site.body_layouts(), g->convolution ? settings.tf32_convolutions : settings.tf32);
  std::vector<Wish> wishes{channels_innermost, even_rows};
  wish_for_merged_rows(wishes, site, *g, kernels::gemm::tuning::rows_of_tile, settings.machine, peak_for(*g, settings));
  if (!answer.obstacle) {
    out.offers.push_back({.implementation = name, .cost = cost, .wishes = wishes, .tunables = {"algorithm"}, .emit = [g, emit = std::move(answer.emit)] { return emit(); }});
    return;
  }
  out.refusals.push_back({name, *answer.obstacle, answer.reason});
  if (answer.obstacle == Obstacle::body && !g->gated) out.offers.push_back({.implementation = name, .cost = cost, .takes_body = false, .wishes = wishes});
}

}  // namespace ingot::backend::cuda
