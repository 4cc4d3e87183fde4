// The compile-time half of a backend: what compile asks to turn bodies and products into steps. Knows graphs' sizes and types, no plans.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/body.h"
#include "base/target.h"
#include "ir/strided_layout.h"

namespace ingot::backend {

// Where an operand's elements are, as the plan will say (plan::OperandView). Of a fused body: leading axes are the domain's, then the gathered ones.
using ir::StridedLayout;

// What a step needs besides its operands.
struct EmittedStep {
  std::string kernel;                // RunKernel::name
  std::vector<std::byte> constants;
  std::vector<ir::Dim> sizes;
};

// C = A B with A [batch.., M, K], B [batch.., K, N]; batch axes of A and B have the result's sizes, stride 0 where they broadcast.
struct Product {
  ir::DType type;                    // of A and B in memory
  StridedLayout a, b;
  bool packed = false;               // B is what `matmul_pack` made instead
  bool constant = false;             // no step of the function writes B
  size_t batch_rank = 0;
  // A convolution, say: A's elements are those of `a` under this map of the indices batch.., m (m_rank of them), k (the rest), 0 outside of `a`.
  std::optional<ir::AffineMap> map = std::nullopt;
  size_t m_rank = 1;
  // Without batch axes: B's further columns, where these stand in matrices of their own with the strides of `b`. They are operands behind B.
  std::vector<StridedLayout> beside = {};
  // One row whose body has half as many columns as B and sees both halves of them beside one another (Instruction::half).
  bool halves = false;
  // One row that the step makes itself: by this body, whose one store is a row of `a`'s elements that nobody else sees. Its other operands stand in A's place.
  const FusedBody* made = nullptr;
  std::vector<StridedLayout> made_of = {};
};

// Sums over windows, each channel by itself (a depthwise convolution): the result at the kept indices is the sum over the other ones of A times B.
struct DepthwiseConv {
  size_t kept = 0;
  ir::AffineMap map;                 // of kept.., summed..: A's elements are those of `a` under it, 0 outside of `a`
  StridedLayout a, b;                       // b: over all indices, stride 0 where it does not depend on one
};

// softmax(scale Q K^T, masked) V with Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E].
struct Attention {
  double scale = 1;
  bool causal = false;
  size_t batch_rank = 0;
  ir::Dim s, t, d, e;
};

struct ProductAnswer {
  enum Kind : uint8_t {
    taken,        // `step` does the product and the body behind it
    body_apart,   // not with this body: the product must be stored by itself
    copy_a,       // not with A where it lies, or through a map: it must be row-major
    copy_b,
    refused,      // not with these types: a fused body has to do it
  } kind = refused;
  EmittedStep step;
};

// A map as steps read it: its steps, [axes][indices]; appended to a step's sizes the extents of its indices and the offsets along its axes. nullopt where
// an index goes backwards, or too far.
std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap&, std::vector<ir::Dim>& sizes);

// Code for a device, to be put into the plan.
struct DeviceCode {
  bool ptx = false;                  // else machine code
  int architecture = 0;
  std::vector<std::string> kernels;
  std::vector<std::byte> image;
};

class Emitter {
 public:
  virtual ~Emitter() = default;
  // Operands of the step: the body's, loads first, then stores. Error (unsupported) when a primitive has no meaning for its dtype.
  virtual EmittedStep fused(const FusedBody&, const std::vector<StridedLayout>&) = 0;
  // The product and the body that uses it as accumulator. Operands of the step: A, B, what stands beside it, then the body's.
  virtual ProductAnswer product(const Product&, const FusedBody&, const std::vector<StridedLayout>&) = 0;
  // Whether there may be a kernel for products of this type that make their left operand, a row of this length, themselves (Product::made).
  virtual bool makes_rows(ir::DType, const ir::Dim&) const { return false; }
  // Whether products of this type read as many columns as these, neighbours along K, from a matrix each (Product::beside), and not from one that is made of them.
  virtual bool takes_columns_apart(ir::DType, bool /*one_row*/, const ir::Dim& /*k*/, const ir::Dims& /*columns*/) const { return false; }
  // Whether there may be a kernel for products of one row of this type whose body sees this many columns, and as many others (Product::halves).
  virtual bool takes_halves(ir::DType, const ir::Dim&) const { return false; }
  // Whether there may be a kernel for sums over windows of this type; else, and where it has no step for one, a fused body does it.
  virtual bool has_depthwise_conv(ir::DType) const { return false; }
  // The sums and the body that uses them as accumulator. Operands of the step: A, B, then the body's.
  virtual std::optional<EmittedStep> depthwise_conv(const DepthwiseConv&, const FusedBody&, const std::vector<StridedLayout>&) { return std::nullopt; }
  // Whether there is a kernel for attention of this type and these sizes of heads; else it is written out.
  virtual bool attends(ir::DType, const ir::Dim& depth, const ir::Dim& width) const = 0;
  // Operands of the step: Q, K, V, the mask body's loads (its accumulator is the scaled score), the result. `mask` may be null.
  virtual EmittedStep attention(const Attention&, ir::DType, const FusedBody* mask, const std::vector<StridedLayout>&) = 0;
  // Products by weights read them packed by a step of their own.
  virtual bool packs() const = 0;
  // A step is in the plan: one that was emitted, or one that no body can hold (scan, sort, scatter), whose constants are the same for all backends.
  virtual void keep(std::string_view kernel, std::span<const std::byte> constants, std::span<const ir::DType> operands) = 0;
  // The code of all that was kept, compiled. Called once, at the end.
  virtual std::vector<DeviceCode> finish() = 0;
};

// What results must be the same for, bit by bit.
enum class Deterministic : uint8_t {
  run,    // the same inputs
  batch,  // and whatever stands beside them in the batch
};

struct EmitterSettings {
  Deterministic deterministic = Deterministic::run;
  bool tf32 = false;  // products of f32 may read 10 bits of their operands' mantissas, where the target has such
};

// Error (unsupported) where the target cannot be as deterministic.
std::unique_ptr<Emitter> make_emitter(const Target&, EmitterSettings settings = {});

}  // namespace ingot::backend
