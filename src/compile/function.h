// One program of a plan from one graph: which values get memory and where, which steps make them. stored.cpp decides which values have
// memory, places.cpp where it is, steps.cpp, windows.cpp and writer.cpp make them, states.cpp minds memory that the model writes.
//
// A value is *stored* when it has memory of its own; every other value lives inside the fused body that uses it. Bodies are
// written by pulling: starting at a stored value, operands are inlined until stored ones are reached. What cannot be inlined
// (another row length, a reshape that no affine index expresses) is cut: it becomes stored too, and the function is compiled
// anew. Cuts only grow, so this ends.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/emitter.h"
#include "compile/buffer_view.h"
#include "compile/columns.h"
#include "compile/size_table.h"
#include "compile/split.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace ingot::compile {

// What a leaf of the graph is in the plan.
struct LeafPlaces {
  std::vector<uint32_t> weight;   // per value: index in Plan::weights, or none_id
  std::vector<uint32_t> derived;  // per value: index in Plan::derived, or none_id
};

// Why a stored value needs a step.
struct Root {
  enum class Kind : uint8_t { value, concat_part, update_base, update_value, mask, row };
  Kind kind;
  ir::ValueId value;       // what is computed (for parts: the operand)
  ir::ValueId target;      // the stored value it belongs to
  uint32_t part = 0;       // operand of the join,
  ir::Dim start = 0;       // and where it begins there
};

// The decisions about a graph, made in one pass over it for a given set of cuts.
struct StoragePlan {
  std::vector<bool> stored;
  std::vector<Root> roots;
  std::map<ir::ValueId, uint32_t> root_of;                              // value roots
  std::map<std::pair<ir::NodeId, uint32_t>, uint32_t> part_root;        // join parts, update halves, masks
  std::vector<BufferView> places;                                            // per stored value
};

struct Cut {
  ir::ValueId value;
};

// Whether a value is another one's elements under a map of indices.
bool is_plain_view(const ir::Graph& g, ir::ValueId v);
std::vector<StridedLayout> layouts_of(const std::vector<BufferView>& places);

struct WrittenBody;

// A value's elements as those of what is stored, under a map of its indices, 0 outside.
struct Followed {
  BufferView place;
  ir::AffineMap map;
};

// The left operand of a product: a matrix for each batch index, or what a map finds in `place` (backend::Product).
struct Rows {
  BufferView place;
  std::optional<ir::AffineMap> map;
  size_t m_rank = 1;
  ir::ValueId copied = ir::none_id;  // with a map: what is stored instead where the backend cannot follow it
};

class FunctionCompiler {
 public:
  // `output_derived`, `output_packed`: of a prepare function, which derived tensor each output is, and whether it is packed rather than stored row-major.
  FunctionCompiler(const ir::Graph& g, backend::Emitter& emitter, LeafPlaces leaves, std::vector<uint32_t> packed_operand, std::vector<uint32_t> output_derived,
                   std::vector<bool> output_packed, const std::vector<int64_t>& derived_bytes);

  // Appends a program to the function; the first one brings symbols, bindings and checks.
  void run(plan::Function& function);

  // ---- used by the body writer
  const ir::Graph& graph() const { return g_; }
  const StoragePlan& storage() const { return storage_; }
  // Where v lies, if v is stored or a chain of views over one.
  std::optional<BufferView> resolve(ir::ValueId v) const;
  // The same, or a Cut of the value that stands in the way.
  BufferView require(ir::ValueId v) const;
  // Through views to what is stored, or would be for them.
  ir::ValueId base_of(ir::ValueId v) const;
  // Whether the body behind a product may have these sizes and see both halves of its columns.
  bool meets_halves(ir::ValueId product, const ir::Dims& dims) const;
  // Made by a kernel that finishes with a body: a product, or a sum over windows.
  bool is_anchor(ir::ValueId v) const { return ir::is_anchor(g_.producer(v).op) || depthwise_convs_.contains(v); }

 private:
  bool is_leaf(ir::ValueId v) const { return ir::is_leaf(g_.producer(v).op); }
  bool is_inlined(const ir::Node& node) const { return ir::is_inlined(node.op) && !depthwise_convs_.contains(node.out[0]); }
  std::vector<int> costs() const;
  void decide();
  void seed();
  void place_all();
  void place_concat_parts();
  StridedLayout layout_of(ir::ValueId v) const;
  ir::ValueId rows_base(ir::ValueId v) const;
  bool makes_row(const ir::Node& product) const;
  // The join whose parts a product reads its columns from, if it does; nothing makes such a one.
  std::optional<ir::ValueId> apart(const ir::Node& product) const;
  bool is_unmade(ir::ValueId join) const { return unmade_.contains(join) && !cuts_.contains(join); }
  std::optional<Followed> follow(ir::ValueId v) const;
  void match_depthwise_convs();
  Rows rows_of(ir::ValueId v, const ir::Dims& batch) const;
  uint32_t add_root(Root root);

  void emit_node(ir::NodeId n);
  void emit_root(uint32_t root);
  void emit_body(WrittenBody written, ir::OriginId origin);
  void emit_product(WrittenBody written);
  void emit_depthwise_conv(WrittenBody written);
  void emit_product_by_sums(const WrittenBody& written, const BufferView& a, const BufferView& b);
  void emit_attention(ir::NodeId n);
  void emit_kernel(ir::NodeId n);
  void emit_pack(ir::ValueId v, uint32_t derived);
  plan::OperandView view_of(const BufferView& place);
  plan::BufferId arena_buffer(const ir::Dim& bytes);
  plan::BufferId leaf_buffer(plan::Buffer::Kind kind, uint32_t index, const ir::Dim& bytes);
  // A step of what the backend emitted, over these places.
  plan::Step step_of(backend::EmittedStep emitted, std::string label, uint32_t writes, const std::vector<BufferView>& operands);
  void push(plan::Step step, ir::OriginId origin);
  void liveness();
  void place_states();
  bool find_conflicts();
  bool same_memory(const BufferView& a, const BufferView& b) const;
  void copy(ir::ValueId v, const BufferView& target, std::string label);
  void copy_outputs();

  const ir::Graph& g_;
  backend::Emitter& emitter_;
  LeafPlaces leaves_;
  std::vector<uint32_t> packed_operand_, output_derived_;
  std::vector<bool> output_packed_;
  const std::vector<int64_t>& derived_bytes_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<uint32_t> uses_;  // counting outputs
  std::vector<ir::ValueId> written_;  // per output: the leaf that it writes over, or none_id
  std::set<ir::ValueId> cuts_;
  std::set<ir::ValueId> alone_;                // made in no join: somebody reads them with a layout that a part of a join has not
  std::map<ir::ValueId, size_t> depthwise_convs_;  // and which operand of the multiplication in them has the windows
  std::set<ir::ValueId> unmade_;               // joins that are read by parts
  bool declined_ = false;                      // the backend has no kernel for one after all: it is compiled as a body
  StoragePlan storage_;
  SizeTable sizes_;
  std::vector<plan::Binding> bindings_;
  plan::Program out_;
  std::map<std::pair<plan::Buffer::Kind, uint32_t>, plan::BufferId> leaf_buffers_;
  std::set<std::pair<ir::NodeId, uint32_t>> emitted_parts_;  // joins and which of their operands are made there
  // State: an output to an input or weight is computed in that memory, unless somebody still reads the old value (`copied_`: then it is
  // made elsewhere and copied at the end). In place it has a buffer entry of its own, apart from the one through which the old value is read.
  std::map<size_t, std::vector<plan::BufferId>> in_place_;  // output -> entries of its versions there, newest first
  std::set<size_t> copied_;
};

}  // namespace ingot::compile
