// One function of a plan from one graph: which values get memory and where, which steps make them.
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

#include "backend/body.h"
#include "compile/place.h"
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
  enum class Kind : uint8_t { value, join_part, update_base, update_value, mask };
  Kind kind;
  ir::ValueId value;       // what is computed (for parts: the operand)
  ir::ValueId target;      // the stored value it belongs to
  uint32_t part = 0;       // operand of the join
};

// The decisions about a graph, made in one pass over it for a given set of cuts.
struct Layout {
  std::vector<bool> stored;
  std::vector<std::set<uint32_t>> homes;  // per value that is not stored: roots it is inlined into
  std::vector<Root> roots;
  std::map<ir::ValueId, uint32_t> root_of;                              // value roots
  std::map<std::pair<ir::NodeId, uint32_t>, uint32_t> part_root;        // join parts, update halves, masks
  std::vector<Place> places;                                            // per stored value
};

struct Cut {
  ir::ValueId value;
};

class FunctionCompiler {
 public:
  // `packs`: for the prepare function, pairs (value, derived index) that are packed rather than stored row-major.
  FunctionCompiler(const ir::Graph& g, LeafPlaces leaves, std::vector<uint32_t> packed_operand,
                   std::vector<uint32_t> output_derived, std::vector<bool> output_packed, const std::vector<int64_t>& derived_bytes);

  plan::Function run(std::string name);

  // ---- used by the body writer
  const ir::Graph& graph() const { return g_; }
  const Layout& layout() const { return layout_; }
  // The window of v over a stored value, if v is stored or a chain of views over one.
  std::optional<Place> resolve(ir::ValueId v) const;
  // The same, or a Cut of the value that stands in the way.
  Place require(ir::ValueId v) const;

 private:
  bool is_leaf(ir::ValueId v) const;
  bool inlinable(ir::Op op) const;
  int cost(ir::ValueId v);
  void decide();
  void seed();
  void place_all();
  void place_join_parts();
  Window layout_of(ir::ValueId v) const;
  ir::ValueId base_of(ir::ValueId v) const;
  uint32_t add_root(Root root);

  void emit_node(ir::NodeId n);
  void emit_root(uint32_t root);
  void emit_attention(ir::NodeId n);
  void emit_kernel(ir::NodeId n);
  void emit_pack(ir::ValueId v, uint32_t derived);
  plan::OperandView view_of(const Place& place);
  plan::BufferId arena_buffer(const ir::Dim& bytes);
  plan::BufferId leaf_buffer(plan::Buffer::Kind kind, uint32_t index, const ir::Dim& bytes);
  std::vector<plan::SizeRef> fused_sizes(const ir::Dims& sizes, const backend::FusedBody& body);
  void push(plan::Step step, ir::OriginId origin);
  void liveness();
  void place_states();
  bool find_conflicts();
  bool same_memory(const Place& a, const Place& b) const;
  void copy(ir::ValueId v, const Place& target, std::string label);
  void copy_outputs();

  const ir::Graph& g_;
  LeafPlaces leaves_;
  std::vector<uint32_t> packed_operand_, output_derived_;
  std::vector<bool> output_packed_;
  const std::vector<int64_t>& derived_bytes_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<uint32_t> uses_;  // counting outputs
  std::set<ir::ValueId> cuts_;
  std::vector<int> cost_;
  Layout layout_;
  SizeTable sizes_;
  plan::Function out_;
  std::set<ir::ValueId> emitted_parts_;
  // State: an output to an input or weight is computed in that memory, unless somebody still reads the old value (`copied_`: then it is
  // made elsewhere and copied at the end). In place it has a buffer entry of its own, apart from the one through which the old value is read.
  std::map<size_t, std::vector<plan::BufferId>> in_place_;  // output -> entries of its versions there, newest first
  std::set<size_t> copied_;
};

}  // namespace ingot::compile
