// The first phase: which values have memory, and where. Every other value lives inside the fused body that uses it.
//
// If a later phase needs more values stored (because of another row length, or a reshape that no affine index expresses), it adds them to the requirements
// and this phase runs again. Requirements only grow, so this ends.
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
  std::set<ir::ValueId> stored;         // values that need memory
  std::set<ir::ValueId> alone;          // not computed inside a concatenation: a reader needs a layout that a part does not have
  std::set<ir::ValueId> not_depthwise;  // sums for which the backend has no kernel, as the schedule found
  std::set<size_t> copied;              // outputs computed elsewhere and copied, because a step still reads what they overwrite
  size_t size() const { return stored.size() + alone.size() + not_depthwise.size() + copied.size(); }
};

// A stored value, or a part of one, that needs a step.
struct Root {
  enum class Kind : uint8_t { value, concat_part, update_base, update_value, mask, row };
  Kind kind;
  ir::ValueId value;       // what is computed (for parts: the operand)
  ir::ValueId target;      // the stored value it belongs to
  uint32_t part = 0;       // index of the operand in the concatenation,
  ir::Dim start = 0;       // and where it starts there
};

// plan::Buffer and plan::Binding with symbolic sizes.
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

// A value as elements of a stored one: a map of indices, 0 outside.
struct Followed {
  BufferView place;
  ir::AffineMap map;
};

// A of a GEMM: a matrix per batch index, or `place` read through a map (backend::Gemm).
struct OperandA {
  BufferView place;
  std::optional<ir::AffineMap> map;
  size_t m_rank = 1;
  ir::ValueId copied = ir::none_id;  // with a map: the value to store if the backend cannot follow the map
};

struct StoragePlan {
  const Context* context;
  Requirements required;
  std::map<ir::ValueId, size_t> depthwise;
  std::vector<bool> stored;
  std::vector<Root> roots;
  std::map<ir::ValueId, uint32_t> root_of;                        // value roots
  std::map<std::pair<ir::NodeId, uint32_t>, uint32_t> part_root;  // parts of concatenations, base and value of updates, masks
  std::vector<BufferView> places;                                 // per stored value
  Buffers buffers;
  std::vector<PlannedBinding> bindings;
  std::set<std::pair<ir::NodeId, uint32_t>> parts_in_place;       // concatenations, and which operands are computed in their place
  // State: an output to an input or weight is computed in that memory. Each version has its own buffer entry, newest first, separate
  // from the entry through which the old value is read.
  std::map<size_t, std::vector<plan::BufferId>> in_place;
  std::set<ir::ValueId> windows;                                  // views that only a depthwise convolution reads

  const ir::Graph& graph() const { return context->graph; }
  // The place of v if it is stored or a view of a stored value. `as_windows`, here and below: for a depthwise convolution, which may widen what it reads.
  std::optional<BufferView> resolve(ir::ValueId v, bool as_windows = false) const;
  // The same, or the value that has to be stored first.
  Outcome<BufferView> require(ir::ValueId v) const;
  // Strips views down to the value that is, or would be, stored.
  ir::ValueId base_of(ir::ValueId v, bool as_windows = false) const;
  // Strips views, at most one of which pads with zeros, down to a stored value.
  std::optional<Followed> follow(ir::ValueId v, bool as_windows = false) const;
  Outcome<OperandA> operand_a(ir::ValueId v, const ir::Dims& batch) const;
  // The value to store so that a GEMM or a depthwise convolution can read A.
  ir::ValueId base_of_a(ir::ValueId v, bool as_windows = false) const;
  // True if a kernel with an epilogue computes it: a GEMM, or a depthwise convolution.
  bool is_anchor(ir::ValueId v) const { return ir::is_anchor(graph().producer(v).op) || depthwise.contains(v); }
  bool is_inlined(const ir::Node& node) const { return ir::is_inlined(node.op) && !depthwise.contains(node.out[0]); }
  // True if A may be one row that the kernel computes in its prologue. Every block repeats the prologue, so what has to be stored stays outside it.
  bool has_prologue(const ir::Node& matmul) const;
  // True for a concatenated weight that the GEMM reads part by part. It is never materialised.
  bool is_unmaterialised(ir::ValueId concat) const { return context->concats_of_b.contains(concat) && !required.stored.contains(concat); }
  // True for a copy of an image that is not made, unless a kernel wants it: its reader reads the image.
  bool is_read_through(ir::ValueId v) const { return context->image_copies.contains(v) && !required.stored.contains(v); }
  // The copy that the views on the way to `v` would read; none_id if there is none.
  ir::ValueId skipped_copy(ir::ValueId v) const;
  std::optional<ir::ValueId> concat_of_b(const ir::Node& matmul) const;
  // The integers and the scale that the GEMM reads instead of B, or null.
  const EncodedB* encoded(const ir::Node& matmul) const;
  // The GEMM without layouts, to ask for offers before anything is placed.
  backend::Gemm sketch(const ir::Node& matmul) const;
  // True if the GEMM's epilogue may have these sizes, with both halves of the columns at hand (a gated epilogue).
  bool may_be_gated(ir::ValueId gemm, const ir::Dims& dims) const;
};

StoragePlan plan_storage(const Context&, Requirements);
// Prints a line per stored value: its buffer, its layout, and why it needs a step.
std::string print(const StoragePlan&);

}  // namespace ingot::compile
