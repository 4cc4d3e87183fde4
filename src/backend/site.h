// The question of compile to a backend: a kernel of a graph, its operands by role, and what could be fused into it.
#pragma once
#include <any>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "backend/body.h"
#include "backend/tuning.h"
#include "ir/encoding.h"
#include "ir/strided_layout.h"
#include "kernels/external/external.h"
#include "kernels/run/role.h"

namespace ingot::ir {
class Handle;
}  // namespace ingot::ir

namespace ingot::backend {

using ir::StridedLayout;
using kernels::Role;

// An operand of a step, as it is or would be in memory.
struct Operand {
  enum class Source : uint8_t {
    computed,  // by a step, or given by the caller
    constant,  // no step of the function writes it
    state,     // memory that the model writes and keeps
  };
  Role role;
  ir::DType type = ir::DType::f32;       // in memory
  StridedLayout layout;                  // of a body's operand: over the body's domain, followed by its gathered axes
  std::optional<ir::Encoding> encoding = std::nullopt;  // if its numbers are not of the kernel's type
  Source source = Source::computed;
  // True if it starts at a multiple of `alignment` bytes in each run, as the plan's own memory does. A caller's memory may start anywhere.
  bool aligned = false;
  static constexpr int64_t alignment = tuning::vector_bytes;
};

// How B is packed: from a matrix to one axis, by a step of the backend, or by primitives that prepare computes like any others.
struct Packing {
  // In primitives: of B, or of numbers [K, N], scales and maybe zeros [K / group, N]. The result has the bytes of the encoding.
  using Write = ir::Handle (*)(const ir::Encoding&, std::span<const ir::Handle>);
  std::string_view kernel;           // RunKernel::name of the step; operands B, packed; sizes K, N. With `write`: the kernel that reads it
  ir::Encoding encoding;             // of the packed B
  Write write = nullptr;
  bool operator==(const Packing&) const = default;
};

// What a GEMM does with its operands: C = A B with A [batch.., M, K], B [batch.., K, N]. Batch axes of A and B have the result's sizes, with stride 0 where they
// broadcast. The body is the epilogue: its accumulator is C.
//   b         one matrix, or parts side by side along N with equal strides, without batch axes
//   scale     [K / block, N], zero likewise: of a B with a block of its encoding along K. A scale per column is not an operand: the body multiplies the sum by it
//   row_ends  [experts]: B is [experts, K, N], and row m of A is multiplied by the first expert e with m < row_ends[e]
struct GemmAttributes {
  ir::DType type;                    // of A in memory, and of B
  std::optional<Packing> packed = std::nullopt;  // B is the output of this packing step
  size_t batch_rank = 0;
  // Implicit GEMM (a convolution): A is read through this map from the indices batch.., m (m_rank of them), k (the rest) to `a`, with 0 outside `a`.
  std::optional<ir::AffineMap> map = std::nullopt;
  size_t m_rank = 1;
  bool convolution = false;          // the settings have a separate precision for convolutions
  // Gated epilogue: the body has half as many columns as B, and reads column n of both halves (Instruction::half).
  bool gated = false;
  // A has one row, computed inside the kernel by this body and stored nowhere: the step has what the body loads in place of A. In a sketch there is no body yet.
  struct Prologue {
    const FusedBody* body = nullptr;
    std::vector<StridedLayout> operands = {};  // of the body: its loads, and the row
    StridedLayout row = {};                    // A
  };
  std::optional<Prologue> prologue = std::nullopt;
};

// A GEMM with its operands by name, as its kernels read it: gemm_of(site).
struct Gemm : GemmAttributes {
  StridedLayout a = {};
  std::vector<StridedLayout> b = {};
  bool constant = false;             // all of B is
  std::optional<ir::Encoding> encoding = std::nullopt;  // of B
  const Operand *scale = nullptr, *zero = nullptr, *row_ends = nullptr;
};

// A depthwise convolution: the result at the kept indices is the sum of A times B over the other indices. The body's accumulator is the sum.
struct DepthwiseAttributes {
  ir::DType type;                    // of the sum, and of B
  size_t kept = 0;
  ir::AffineMap map = {};            // from kept.., summed.. to `a`, with 0 outside `a`
};
// With its operands by name: depthwise_of(site).
struct DepthwiseConv : DepthwiseAttributes {
  ir::DType of_a = type;             // in memory; a half type is widened when read
  StridedLayout a = {}, b = {};      // b: over all indices, stride 0 where b does not depend on one
};

// softmax(scale Q K^T, masked) V with query [batch.., S, D], key [batch.., T, D], value [batch.., T, E]. The optional body is the mask: its accumulator is the
// scaled score, and its store has no memory.
//   block_table  [sequences, blocks of one]: the first batch axis is that of sequences, key is [blocks, batch.., rows of a block, D], value likewise, and key t of
//                a sequence is row t % rows of the block with number block_table[sequence, t / rows]; T is blocks of one * rows
//   filled       [sequences]: how many of the T keys a sequence has, from the first on; `causal` queries are those of its last keys
struct Attention {
  ir::DType type;
  double scale = 1;
  bool causal = false;
  size_t batch_rank = 0;
  ir::Dim s = 0, t = 0, d = 0, e = 0;
};

// A fused body without an anchor.
struct Fused {};

// A kernel without a body (scan, sort, scatter). Its constants are the same for all backends. Operands of the step: see the kernel's x_args.h.
struct Plain {
  std::string_view kernel;
  std::span<const std::byte> constants;
};

// A kernel that the user registered. Operands of the step, all row-major: its tensors in any order, then what it
// writes (kernels/external/run/external_args.h).
struct External {
  const kernels::External* kernel;
  std::vector<uint32_t> inputs;      // per tensor of the kernel: the operand of the step
  uint32_t results = 0;              // without the new values of tensors that it updates in place
};

struct EmittedStep;
// Independent steps of one kernel, as one step: it reads what they read, step by step, then writes what they write.
struct Concurrent {
  struct Part {
    const EmittedStep* step;
    size_t writes;
    std::vector<Operand> operands;
  };
  std::vector<Part> parts;
};

// What one implementation of a backend has found out about a site, for the others that are asked after it. One value: the implementations of a kernel share its type.
class SiteReading {
 public:
  template <class T, class Read>
  const T& of(Read read) {
    const T* found = std::any_cast<T>(&value_);
    return found != nullptr ? *found : value_.emplace<T>(read());
  }
  void forget() { value_.reset(); }

 private:
  std::any value_;
};

// A kernel of a graph with everything that could be fused into it: the epilogue, maps and the prologue of an operand, the parts of a weight.
struct Site {
  std::variant<Fused, GemmAttributes, DepthwiseAttributes, Attention, Plain, External, Concurrent> kernel;
  const FusedBody* body = nullptr;
  std::vector<Operand> operands = {};        // of the step, in the order of the kernel's definition
  mutable SiteReading reading = {};
  std::span<const ir::Symbol> symbols = {};  // usual values and ranges of open sizes; a sketch has none
  // The usual and the largest value of a size; nullopt if the site does not say.
  std::optional<int64_t> usual(const ir::Dim&) const;
  std::optional<int64_t> largest(const ir::Dim&) const;

  std::span<const Operand> of(Role) const;   // all of this role
  const Operand* find(Role) const;           // the first one; null: there is none
  // Operand `k` of the body, and all of them.
  const StridedLayout& body_operand(size_t k) const;
  std::vector<StridedLayout> body_layouts() const;
  std::vector<StridedLayout> layouts() const;  // of all operands
};
// The site's operands by name. Null: it is of another kind.
std::shared_ptr<const Gemm> gemm_of(const Site&);
std::shared_ptr<const DepthwiseConv> depthwise_of(const Site&);
// The inverse: a sketch, or a site written by hand.
Site site_of(Gemm, const FusedBody* body = nullptr, const std::vector<StridedLayout>& body_layouts = {});
Site site_of(DepthwiseConv, const FusedBody* body = nullptr, const std::vector<StridedLayout>& body_layouts = {});
// The body's operands: what it loads, then what it stores.
void add_body(Site&, const std::vector<StridedLayout>& layouts);
// True if these operands of the step start at aligned addresses in each run.
bool are_aligned(const Site&, std::span<const size_t> operands);
// "gemm", "scan": used in messages.
std::string_view name_of(const Site&);
// False for operands of a sketch, which have no strides.
inline bool is_placed(const StridedLayout& x) { return x.strides.size() == x.dims.size(); }
inline bool is_sketch(const Site& site) { return !site.operands.empty() && !is_placed(site.operands[0].layout); }
inline StridedLayout unplaced(ir::Dims dims) { return {std::move(dims), {}, 0}; }

}  // namespace ingot::backend
