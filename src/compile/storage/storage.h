// The first phase: which values have memory, and where. Every other value lives inside the fused body that uses it.
//
// What later phases find that must be stored besides (another row length, a reshape that no affine index expresses) they add to the requirements, and this
// phase is done anew. Requirements only grow, so this ends.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compile/buffer_view.h"
#include "compile/context.h"
#include "compile/outcome.h"
#include "plan/plan.h"

namespace ingot::compile {

struct Requirements {
  std::set<ir::ValueId> stored;         // values
  std::set<ir::ValueId> alone;          // not computed inside a concatenation: somebody reads them with a layout that a part of one has not
  std::set<ir::ValueId> not_depthwise;  // sums for which the backend has no kernel after all
  std::set<size_t> copied;              // outputs that are computed elsewhere, as somebody still reads what they write over
  size_t size() const { return stored.size() + alone.size() + not_depthwise.size() + copied.size(); }
};

// Why a stored value needs a step.
struct Root {
  enum class Kind : uint8_t { value, concat_part, update_base, update_value, mask, row };
  Kind kind;
  ir::ValueId value;       // what is computed (for parts: the operand)
  ir::ValueId target;      // the stored value it belongs to
  uint32_t part = 0;       // operand of the concatenation,
  ir::Dim start = 0;       // and where it begins there
};

// plan::Buffer and plan::Binding with sizes as expressions.
struct PlannedBuffer {
  plan::Buffer::Kind kind;
  uint32_t index = 0;
  ir::Dim bytes;
};
struct PlannedBinding {
  std::string name;
  ir::DType dtype;
  ir::Dims dims;
  plan::Binding::Kind kind;
  std::vector<uint8_t> order = {};
  bool written = false;
  uint32_t weight = UINT32_MAX;
};

struct Buffers {
  std::vector<PlannedBuffer> list;
  std::map<std::pair<plan::Buffer::Kind, uint32_t>, plan::BufferId> of_leaf;
  plan::BufferId arena(const ir::Dim& bytes);
  plan::BufferId leaf(plan::Buffer::Kind kind, uint32_t index, const ir::Dim& bytes);
};

// A value's elements as those of what is stored, under a map of its indices, 0 outside.
struct Followed {
  BufferView place;
  ir::AffineMap map;
};

// A of a GEMM: a matrix for each batch index, or what a map finds in `place` (backend::Gemm).
struct OperandA {
  BufferView place;
  std::optional<ir::AffineMap> map;
  size_t m_rank = 1;
  ir::ValueId copied = ir::none_id;  // with a map: what is stored instead where the backend cannot follow it
};

struct StoragePlan {
  const Context* context;
  Requirements required;
  std::map<ir::ValueId, size_t> depthwise;
  std::vector<bool> stored;
  std::vector<Root> roots;
  std::map<ir::ValueId, uint32_t> root_of;                        // value roots
  std::map<std::pair<ir::NodeId, uint32_t>, uint32_t> part_root;  // parts of concatenations, halves of updates, masks
  std::vector<BufferView> places;                                 // per stored value
  Buffers buffers;
  std::vector<PlannedBinding> bindings;
  std::set<std::pair<ir::NodeId, uint32_t>> parts_in_place;       // concatenations, and which of their operands are computed there
  // State: an output to an input or weight is computed in that memory, with a buffer entry of its own for each version, newest first, apart from the one
  // through which the old value is read.
  std::map<size_t, std::vector<plan::BufferId>> in_place;
  std::set<ir::ValueId> windows;                                  // views that only a depthwise convolution reads, as its windows

  const ir::Graph& graph() const { return context->graph; }
  // Where v lies, if v is stored or a chain of views over one. `as_windows`, here and below: for a depthwise convolution, which may widen what it reads.
  std::optional<BufferView> resolve(ir::ValueId v, bool as_windows = false) const;
  // The same, or the value that stands in the way.
  Outcome<BufferView> require(ir::ValueId v) const;
  // Through views to what is stored, or would be for them.
  ir::ValueId base_of(ir::ValueId v, bool as_windows = false) const;
  // Through views, at most one of which pads with zeros, to what is stored.
  std::optional<Followed> follow(ir::ValueId v, bool as_windows = false) const;
  Outcome<OperandA> operand_a(ir::ValueId v, const ir::Dims& batch) const;
  // What must be stored for a GEMM or a depthwise convolution to read A from.
  ir::ValueId base_of_a(ir::ValueId v, bool as_windows = false) const;
  // A cast from a half type that the backend's depthwise convolutions do by themselves.
  bool widens(const ir::Node&) const;
  // Computed by a kernel that finishes with a body: a GEMM, or a depthwise convolution.
  bool is_anchor(ir::ValueId v) const { return ir::is_anchor(graph().producer(v).op) || depthwise.contains(v); }
  bool is_inlined(const ir::Node& node) const { return ir::is_inlined(node.op) && !depthwise.contains(node.out[0]); }
  // True if A may be one row that the kernel computes itself. Every block of the kernel does, so what is stored is left there.
  bool has_prologue(const ir::Node& matmul) const;
  // The concatenated weights that the GEMM reads piece by piece. They are never materialised.
  bool is_unmaterialised(ir::ValueId concat) const { return context->pieces.contains(concat) && !required.stored.contains(concat); }
  std::optional<ir::ValueId> pieces(const ir::Node& matmul) const;
  // The numbers and the scale that the GEMM reads instead of B, or null.
  const EncodedB* encoded(const ir::Node& matmul) const;
  // The GEMM as a sketch.
  backend::Gemm sketch(const ir::Node& matmul) const;
  // True if the body behind a GEMM may have these sizes and see both halves of its columns.
  bool may_be_gated(ir::ValueId gemm, const ir::Dims& dims) const;
};

StoragePlan plan_storage(const Context&, Requirements);
// One line a stored value: its buffer, layout, and why it needs a step.
std::string print(const StoragePlan&);

}  // namespace ingot::compile
