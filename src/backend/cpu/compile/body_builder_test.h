// Builds bodies by hand, for tests and benchmarks: `B b({1024}, {768}); auto x = b.load(f32); b.store(b.map(Op::exp, f32, {x}));` Operands cover the whole
// domain unless a shape is given (1 = broadcast along that axis).
#pragma once
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "backend/body.h"
#include "backend/cpu/compile/byte_code.h"
#include "backend/run/device.h"

namespace ingot::backend::cpu {

class BodyBuilder {
 public:
  FusedBody body;

  BodyBuilder(std::vector<int64_t> outer, std::vector<int64_t> row) : outer_(std::move(outer)), row_(std::move(row)) {
    for (int64_t d : outer_) body.outer.emplace_back(d);
    for (int64_t d : row_) body.row.emplace_back(d);
  }
  Reg push(Instruction i) {
    body.code.push_back(std::move(i));
    return static_cast<Reg>(body.code.size() - 1);
  }
  Reg load(ir::DType t, std::vector<Reg> index = {}) {
    Instruction i{};
    i.kind = Instruction::Kind::load;
    i.dtype = ir::compute_type(t);
    i.operand = static_cast<uint32_t>(body.operands.size());
    i.in = std::move(index);
    body.operands.push_back(t);
    return push(std::move(i));
  }
  Reg map(ir::Op op, ir::DType t, std::vector<Reg> in) {
    Instruction i{};
    i.kind = Instruction::Kind::map;
    i.op = op;
    i.dtype = t;
    i.in = std::move(in);
    return push(std::move(i));
  }
  Reg number(ir::Scalar s, ir::DType t) {
    Instruction i{};
    i.kind = Instruction::Kind::literal;
    i.number = std::move(s);
    i.dtype = t;
    return push(std::move(i));
  }
  Reg index(uint32_t axis) {
    Instruction i{};
    i.kind = Instruction::Kind::index;
    i.axis = axis;
    i.dtype = ir::DType::i64;
    return push(std::move(i));
  }
  Reg reduce(Reduction r, ir::DType t, Reg in) {
    Instruction i{};
    i.kind = Instruction::Kind::reduce;
    i.reduction = r;
    i.dtype = t;
    i.in = {in};
    return push(std::move(i));
  }
  // Stores come after all loads.
  void store(ir::DType t, Reg value) {
    body.stores.push_back({static_cast<uint32_t>(body.operands.size()), value});
    body.operands.push_back(t);
  }
  std::vector<int64_t> domain() const {
    std::vector<int64_t> d = outer_;
    d.insert(d.end(), row_.begin(), row_.end());
    return d;
  }

 private:
  std::vector<int64_t> outer_, row_;
};

// A "fused" step bound to memory, as the runtime runs it. The views hold the data pointers.
class FusedStep {
 public:
  struct View {
    void* data;
    std::vector<int64_t> dims, strides;
  };
  FusedStep(const FusedBody& body, std::vector<View> views, Workers& workers) : views_(std::move(views)) {
    Emitted code = emit(body);
    for (const ir::Dim& d : code.sizes) sizes_.push_back(d.value());
    for (const ir::Dim& d : body.outer) sizes_.push_back(d.value());
    for (const ir::Dim& d : body.row) sizes_.push_back(d.value());
    kernel_ = find_cpu_kernel("fused");
    loaded_ = kernel_->load(code.code, views_.size(), sizes_.size());
    for (size_t k = 0; k < views_.size(); ++k) {
      refs_.push_back({static_cast<std::byte*>(views_[k].data), body.operands[k], static_cast<int>(views_[k].dims.size()), views_[k].dims.data(), views_[k].strides.data()});
    }
    call_.operands = refs_;
    call_.sizes = sizes_;
    call_.constants = loaded_.get();
    call_.workers = &workers;
    resolved_ = kernel_->resolve(call_);
    call_.prepared = resolved_.state.get();
    scratch_.resize(resolved_.scratch + 64);
    call_.scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64);
  }
  FusedStep(const FusedStep&) = delete;
  void run() { kernel_->run(call_); }

 private:
  std::vector<View> views_;
  std::vector<int64_t> sizes_;
  const RunKernel* kernel_;
  std::shared_ptr<const void> loaded_;
  std::vector<TensorRef> refs_;
  Resolved resolved_;
  std::vector<std::byte> scratch_;
  Call call_;
};

inline FusedStep::View row_major(void* data, std::vector<int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) strides[d] = 0;
  }
  return {data, std::move(dims), std::move(strides)};
}

}  // namespace ingot::backend::cpu
