// The CPU's steps: byte code behind each kernel's own arguments.
#include <functional>
#include <numeric>

#include "backend/cpu/compile/emitter.h"
#include "kernels/attention/run/attention_args.h"
#include "kernels/depthwise_conv/run/depthwise_conv_args.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cpu {

namespace {

// What a step of an index does in memory.
ir::Dim step_in_memory(const ir::AffineMap& map, const StridedLayout& a, size_t index) {
  ir::Dim step = 0;
  for (size_t j = 0; j < map.axes.size(); ++j) {
    for (const ir::AffineMap::Term& t : map.axes[j].terms) {
      if (t.axis == index) step += a.strides[j] * ir::Dim(t.coefficient);
    }
  }
  return step;
}

// nullopt for maps that the kernel cannot follow, or would follow from cache line to cache line. The images of a first layer may have their few channels
// between neighbours of a line.
std::optional<kernels::GemmMap> map_of(const Product& p, std::vector<ir::Dim>& sizes) {
  constexpr size_t most = kernels::GemmMap::max_rank;
  const ir::AffineMap& from = *p.map;
  const size_t indices = from.dims.size(), k_rank = indices - p.batch_rank - p.m_rank;
  if (from.axes.size() > most || p.m_rank > most || k_rank > most || p.batch_rank > most) return std::nullopt;
  auto steps = map_steps(from, sizes);
  if (!steps) return std::nullopt;
  size_t inner = indices - 1;
  while (inner > p.batch_rank + p.m_rank && from.dims[inner] == ir::Dim(1)) --inner;
  constexpr int64_t near = 4;
  const std::optional<int64_t> step = step_in_memory(from, p.a, inner).constant();
  if (!step || *step < 1 || *step > near) return std::nullopt;
  return kernels::GemmMap{static_cast<uint8_t>(from.axes.size()), static_cast<uint8_t>(p.m_rank), static_cast<uint8_t>(k_rank), std::move(*steps)};
}

// Channels are the last kept index: neighbours in both operands, never outside. No axis is left along the index before it and another one.
bool goes_along_channels(const DepthwiseConv& w) {
  const auto channel = static_cast<uint32_t>(w.kept - 1), across = channel - 1;
  if (!(step_in_memory(w.map, w.a, channel) == ir::Dim(1)) || !(w.b.strides[channel] == ir::Dim(1))) return false;
  for (size_t j = 0; j < w.map.axes.size(); ++j) {
    const ir::AffineMap::Axis& axis = w.map.axes[j];
    size_t kept = 0;
    bool of_channels = false, of_line = false;
    for (const ir::AffineMap::Term& t : axis.terms) {
      kept += t.axis < w.kept;
      of_channels = of_channels || t.axis == channel;
      of_line = of_line || t.axis == across;
    }
    if (of_line && kept > 1) return false;
    if (of_channels && (axis.terms.size() > 1 || axis.terms[0].coefficient != 1 || !(axis.offset == ir::Dim(0)) || !(w.a.dims[j] == w.map.dims[channel]))) return false;
  }
  return true;
}

class Steps final : public backend::Emitter {
 public:
  explicit Steps(Deterministic deterministic) : in_order_(deterministic == Deterministic::batch) {}

  EmittedStep fused(const FusedBody& body, const std::vector<StridedLayout>&) override {
    Emitted code = emit(body);
    EmittedStep step{"fused", std::move(code.code), std::move(code.sizes)};
    step.sizes.insert(step.sizes.end(), body.outer.begin(), body.outer.end());
    step.sizes.insert(step.sizes.end(), body.row.begin(), body.row.end());
    return step;
  }

  ProductAnswer product(const Product& p, const FusedBody& body, const std::vector<StridedLayout>&) override {
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

  bool has_depthwise_conv(ir::DType type) const override { return type == ir::DType::f32; }
  std::optional<EmittedStep> depthwise_conv(const DepthwiseConv& w, const FusedBody& body, const std::vector<StridedLayout>&) override {
    constexpr size_t most = kernels::DepthwiseConvArgs::max_rank;
    const size_t rank = w.map.axes.size(), summed = w.map.dims.size() - w.kept;
    if (rank > most || w.kept < 2 || w.kept > most || summed > most || !goes_along_channels(w)) return std::nullopt;
    const ir::Dim places = std::accumulate(w.map.dims.begin() + static_cast<int64_t>(w.kept), w.map.dims.end(), ir::Dim(1), std::multiplies<>());
    if (places.constant().value_or(INT64_MAX) > kernels::DepthwiseConvArgs::max_summed) return std::nullopt;
    EmittedStep step{"depthwise_conv", {}, {}};
    auto steps = map_steps(w.map, step.sizes);
    if (!steps) return std::nullopt;
    Emitted code = emit(body);
    step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
    step.constants =
        kernels::serialise(kernels::DepthwiseConvArgs{static_cast<uint8_t>(rank), static_cast<uint8_t>(w.kept), static_cast<uint8_t>(summed), std::move(*steps), code.code});
    return step;
  }

  bool attends(ir::DType, const ir::Dim&, const ir::Dim&) const override { return true; }
  EmittedStep attention(const Attention& a, ir::DType, const FusedBody* mask, const std::vector<StridedLayout>&) override {
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
