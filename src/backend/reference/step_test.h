// A site that is written by hand on tensors, and the step of its offer, of the reference or another backend on the host.
#pragma once
#include <gtest/gtest.h>

#include "backend/compiler.h"
#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "backend/run/registry.h"

namespace ingot::backend::reference {

using kernels::TestTensor;
using BodyBuilder = cpu::BodyBuilder;

inline constexpr Target target{Target::Kind::reference};

class HandmadeStep {
 public:
  Site site;

  HandmadeStep& add(Role role, TestTensor& t, std::optional<ir::Encoding> encoding = std::nullopt) {
    StridedLayout layout;
    for (int64_t d : t.dims) layout.dims.emplace_back(d);
    for (int64_t d : t.strides) layout.strides.emplace_back(d);
    site.operands.push_back({role, t.dtype, std::move(layout), encoding});
    refs_.push_back(t.ref());
    return *this;
  }
  // The reason of the first refusal; "" if there is an offer.
  std::string refusal() const {
    const Offers found = compiler_for(target).offers(site, target, {});
    return found.offers.empty() ? found.refusals.at(0).reason : "";
  }
  void run(const Target& of = target, const char* name = "reference") {
    const Offers found = compiler_for(of).offers(site, of, {});
    if (found.offers.size() != 1) throw std::logic_error("there is not one offer");
    const EmittedStep step = found.offers[0].emit();
    std::vector<int64_t> sizes;
    for (const ir::Dim& d : step.sizes) sizes.push_back(d.value());
    const auto device = find_device(name).devices->open(0, {}, {});
    const RunKernel* kernel = device->find(step.kernel);
    const auto loaded = kernel->load(step.constants, refs_.size(), sizes.size());
    Call call;
    call.operands = refs_;
    call.sizes = sizes;
    call.constants = loaded.get();
    call.workers = &kernels::three();
    const Resolved resolved = kernel->resolve(call);
    std::vector<std::max_align_t> scratch(resolved.scratch / sizeof(std::max_align_t) + 1);
    call.scratch = reinterpret_cast<std::byte*>(scratch.data());
    call.prepared = resolved.state.get();
    kernel->run(call);
  }

 private:
  std::vector<TensorRef> refs_;
};

// The accumulator plus what is loaded from a bias, stored: domain [rows.., columns].
inline FusedBody sum_plus_bias(std::vector<int64_t> rows, int64_t columns) {
  BodyBuilder b(std::move(rows), {columns});
  Instruction sum{};
  sum.kind = Instruction::Kind::accumulator;
  sum.dtype = ir::DType::f32;
  const Reg accumulator = b.push(sum), bias = b.load(ir::DType::f32);
  b.store(ir::DType::f32, b.map(ir::Op::add, ir::DType::f32, {accumulator, bias}));
  return b.body;
}

}  // namespace ingot::backend::reference
