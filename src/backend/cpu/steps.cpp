// The CPU's steps: byte code behind each kernel's own arguments.
#include "backend/cpu/emitter.h"
#include "kernels/attention/attention_args.h"
#include "kernels/matmul/matmul_args.h"

namespace ingot::backend::cpu {

namespace {

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
    EmittedStep step{"matmul", kernels::serialise(args), {p.a.dims[p.batch_rank], body.row.back(), p.a.dims.back()}};
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
  bool takes(ir::Op op) const override {
    using ir::Op;
    return op == Op::scan || op == Op::sort || op == Op::topk || op == Op::scatter || op == Op::scatter_along;
  }
  void keep(std::string_view, std::span<const std::byte>) override {}
  std::vector<DeviceCode> finish() override { return {}; }

 private:
  bool in_order_;
};

}  // namespace

std::unique_ptr<backend::Emitter> make_emitter(Deterministic deterministic) { return std::make_unique<Steps>(deterministic); }

}  // namespace ingot::backend::cpu
