// Mutation made functional: which captured tensors share memory, and the newest canonical value of each.
//
// A view remembers the tensor it was made from. A write makes a new value for the tensor, then one for the tensor that owns the memory by
// `update`; every other view of the same memory is made again, from the new value, when it is read next.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/compose.h"
#include "ir/graph.h"

namespace ingot::lower {

// "aten.add_.Tensor" -> "aten.add.Tensor"; empty when the name is not that of an in-place overload.
std::string functional_name(const std::string& target);

class Versions {
 public:
  // `expand` writes a captured node out again in the new graph and gives its results.
  using Expand = std::function<std::vector<ir::Handle>(const ir::Node&)>;
  Versions(const ir::Graph& from, ir::Graph& to, Expand expand);

  void define(ir::ValueId captured, ir::ValueId value) { current_[captured] = value; }
  // The newest value.
  ir::ValueId read(ir::ValueId captured);
  // After a node was expanded: notes which results share memory with its first operand.
  void note_views(ir::NodeId node);
  // Inputs and weights that were written, in the captured graph's order.
  std::vector<ir::ValueId> written_leaves() const;
  // `node` gives its first operand the new value. Error (unsupported) when that cannot be followed.
  void write(ir::NodeId node, ir::Handle value);

 private:
  enum class Link : uint8_t { none, view, maybe };  // maybe: a view or a copy, as the strides happen to be
  static Link link_of_conversion(const ir::Node&);
  ir::ValueId root(ir::ValueId v) const;
  bool read_after(ir::ValueId v, ir::NodeId node) const { return last_read_[v] > node; }
  std::optional<ir::ValueId> written_through(ir::ValueId view, ir::ValueId base, ir::Handle value, bool uniform);
  std::optional<ir::ValueId> written_to_parts(ir::ValueId view, ir::ValueId base, ir::Handle value, bool uniform);

  const ir::Graph& from_;
  ir::Graph& to_;
  Expand expand_;
  std::vector<ir::ValueId> current_, parent_;
  std::vector<Link> link_;
  std::vector<uint32_t> version_;        // of a root: how often it was written; of a view: the root's version it was made from
  std::vector<ir::NodeId> last_read_;
  std::vector<bool> written_;            // per root
  std::vector<bool> lost_;               // per root: it is older than what was written to a view of it, which nobody else reads
};

}  // namespace ingot::lower
