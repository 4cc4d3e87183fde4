// The CPU's steps: byte code behind each kernel's own arguments.
#include <functional>
#include <numeric>

#include "backend/cpu/emitter.h"
#include "kernels/attention/attention_args.h"
#include "kernels/matmul/matmul_args.h"

namespace ingot::backend::cpu {

namespace {

// nullopt for maps that the kernel cannot follow, or would follow element by element.
std::optional<kernels::MatmulMap> map_of(const Product& p, std::vector<ir::Dim>& sizes) {
  constexpr size_t most = kernels::MatmulMap::max_rank;
  const ir::AffineMap& from = *p.map;
  const size_t indices = from.dims.size(), k_rank = indices - p.batch_rank - p.m_rank;
  if (from.axes.size() > most || p.m_rank > most || k_rank > most || p.batch_rank > most) return std::nullopt;
  kernels::MatmulMap to{static_cast<uint8_t>(from.axes.size()), static_cast<uint8_t>(p.m_rank), static_cast<uint8_t>(k_rank), std::vector<int64_t>(from.axes.size() * indices)};
  sizes = from.dims;
  ir::Dim neighbour = 0;  // what a step of the innermost index does in memory
  size_t inner = indices - 1;
  while (inner > p.batch_rank + p.m_rank && from.dims[inner] == ir::Dim(1)) --inner;
  for (size_t j = 0; j < from.axes.size(); ++j) {
    for (const ir::AffineMap::Term& t : from.axes[j].terms) {
      if (t.coefficient < 0 || t.coefficient > INT32_MAX) return std::nullopt;
      to.steps[j * indices + t.axis] = t.coefficient;
      if (t.axis == inner) neighbour += p.a.strides[j] * ir::Dim(t.coefficient);
    }
    sizes.push_back(from.axes[j].offset);
  }
  if (!(neighbour == ir::Dim(1))) return std::nullopt;
  return to;
}

class Steps final : public backend::Emitter {
 public:
  explicit Steps(Deterministic deterministic) : in_order_(deterministic == Deterministic::batch) {}

  std::string target() const override { return "cpu"; }

  EmittedStep fused(const FusedBody& body, const std::vector<Layout>&) override {
    Emitted code = emit(body);
    EmittedStep step{"fused", std::move(code.code), std::move(code.sizes)};
    step.sizes.insert(step.sizes.end(), body.outer.begin(), body.outer.end());
    step.sizes.insert(step.sizes.end(), body.row.begin(), body.row.end());
    return step;
  }

  ProductAnswer product(const Product& p, const FusedBody& body, const std::vector<Layout>&) override {
    Emitted code = emit(body);
    kernels::MatmulArgs args;
    args.packed = p.packed;
    args.in_order = in_order_;
    args.batch_rank = static_cast<uint8_t>(p.batch_rank);
    args.body = code.code;
    std::vector<ir::Dim> map_sizes;
    ir::Dim m, k;
    if (p.map) {
      if (p.type != ir::DType::f32 && p.type != ir::DType::f16 && p.type != ir::DType::bf16) return {ProductAnswer::copy_a, {}};
      args.map = map_of(p, map_sizes);
      if (!args.map) return {ProductAnswer::copy_a, {}};
      const auto first = p.map->dims.begin() + static_cast<int64_t>(p.batch_rank), second = first + static_cast<int64_t>(p.m_rank);
      m = std::accumulate(first, second, ir::Dim(1), std::multiplies<>());
      k = std::accumulate(second, p.map->dims.end(), ir::Dim(1), std::multiplies<>());
    } else {
      m = p.a.dims[p.batch_rank];
      k = p.a.dims.back();
    }
    EmittedStep step{"matmul", kernels::serialise(args), {m, body.row.back(), k}};
    step.sizes.insert(step.sizes.end(), map_sizes.begin(), map_sizes.end());
    step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
    return {ProductAnswer::taken, std::move(step)};
  }

  bool attends(ir::DType, const ir::Dim&, const ir::Dim&) const override { return true; }
  EmittedStep attention(const Attention& a, ir::DType, const FusedBody* mask, const std::vector<Layout>&) override {
    Emitted code;
    if (mask != nullptr) code = emit(*mask);
    kernels::AttentionArgs args;
    args.scale = a.scale;
    args.causal = a.causal;
    args.in_order = in_order_;
    args.batch_rank = static_cast<uint8_t>(a.batch_rank);
    args.mask = code.code;
    EmittedStep step{"attention", kernels::serialise(args), {a.s, a.t, a.d, a.e}};
    step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
    return step;
  }

  bool packs() const override { return true; }
  void keep(std::string_view, std::span<const std::byte>, std::span<const ir::DType>) override {}
  std::vector<DeviceCode> finish() override { return {}; }

 private:
  bool in_order_;
};

}  // namespace

std::unique_ptr<backend::Emitter> make_emitter(Deterministic deterministic) { return std::make_unique<Steps>(deterministic); }

}  // namespace ingot::backend::cpu
