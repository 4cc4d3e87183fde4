#include "lower/versions.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "lower/rewrite.h"

namespace ingot::lower {

using namespace ir;

namespace {

constexpr std::string_view views[] = {"view",   "transpose", "permute", "slice",  "select",           "expand",    "unsqueeze", "squeeze", "t",        "alias",
                                      "detach", "split",     "chunk",   "unbind", "split_with_sizes", "unflatten", "expand_as", "view_as", "diagonal", "movedim",
                                      "narrow", "swapaxes",  "unfold",  "numpy_T", "mT",              "swapdims",  "dropout",   "lift_fresh", "detach_"};
constexpr std::string_view perhaps[] = {"reshape", "contiguous", "flatten", "to", "type_as", "reshape_as", "_to_copy"};

// "slice" of "aten.slice.Tensor"
std::string_view name_of_target(std::string_view target) {
  size_t first = target.find('.') + 1;
  return target.substr(first, target.find('.', first) - first);
}

}  // namespace

Versions::Versions(const Graph& from, Graph& to, Expand expand) : from_(from), to_(to), expand_(std::move(expand)) {
  size_t n = from.values.size();
  current_.assign(n, none_id);
  parent_.assign(n, none_id);
  link_.assign(n, Link::none);
  version_.assign(n, 0);
  last_read_.assign(n, 0);
  written_.assign(n, false);
  for (NodeId i = 0; i < from.nodes.size(); ++i) {
    for (ValueId v : from.nodes[i].in) last_read_[v] = i;
  }
  for (const Output& o : from.outputs) last_read_[o.value] = none_id;
}

ValueId Versions::root(ValueId v) const {
  while (parent_[v] != none_id) v = parent_[v];
  return v;
}

ValueId Versions::read(ValueId v) {
  if (parent_[v] == none_id || version_[v] == version_[root(v)]) return current_[v];
  const Node& node = from_.nodes[from_.values[v].producer];
  if (std::string_view name = name_of_target(node.attributes.string("target")); name.ends_with('_')) {
    current_[v] = read(node.in[0]);
    version_[v] = version_[root(v)];
    return current_[v];
  }
  std::vector<Handle> results = expand_(node);
  for (size_t i = 0; i < node.out.size(); ++i) {
    current_[node.out[i]] = results[i].id();
    version_[node.out[i]] = version_[root(v)];
  }
  return current_[v];
}

void Versions::note_views(NodeId id) {
  const Node& node = from_.nodes[id];
  if (node.in.empty()) return;
  std::string_view name = name_of_target(node.attributes.string("target"));
  Link link = std::find(std::begin(views), std::end(views), name) != std::end(views)         ? Link::view
              : std::find(std::begin(perhaps), std::end(perhaps), name) != std::end(perhaps) ? Link::maybe
                                                                                             : Link::none;
  // What an in-place overload returns is the tensor itself.
  if (link == Link::none && name.size() > 1 && name.ends_with('_') && !name.starts_with('_')) link = Link::view;
  if (link == Link::none) return;
  for (ValueId v : node.out) {
    if (from_.type(v).dtype != from_.type(node.in[0]).dtype) continue;  // a conversion copies
    parent_[v] = node.in[0];
    link_[v] = link;
    version_[v] = version_[root(v)];
  }
}

void Versions::write(NodeId id, Handle value) {
  const Node& node = from_.nodes[id];
  ValueId self = node.in[0], base = root(self);
  const Type& type = from_.type(self);
  value = cast(value, type.dtype);
  if (!(value.dims() == type.dims)) value = expand(value, type.dims);
  // Who else reads this memory from here on, and is it certain that it is this memory?
  bool others = false, certain = true;
  for (ValueId v = 0; v < parent_.size(); ++v) {
    if (current_[v] == none_id || root(v) != base) continue;
    if (v != self && read_after(v, id)) others = true;
    if (link_[v] == Link::maybe) certain = false;
  }
  written_[base] = true;
  // What is written to the caller's memory or a buffer is read again by the caller.
  if (from_.nodes[from_.values[base].producer].op != Op::row && self != base) others = true;
  ValueId old = read(self);
  current_[self] = value.id();
  if (others) {
    if (!certain) fail(Code::unsupported, "it writes in place to a tensor that may or may not share memory with another one (reshape or contiguous)");
    write_below(self, old);
    ++version_[base];
    for (ValueId v = self; v != base; v = parent_[v]) version_[v] = version_[base];
  }
}

std::vector<ValueId> Versions::written_leaves() const {
  std::vector<ValueId> out;
  for (ValueId v = 0; v < written_.size(); ++v) {
    if (written_[v] && from_.nodes[from_.values[v].producer].op != Op::row) out.push_back(v);
  }
  return out;
}

// The tensors that `child` is a view of get new values, down to the one that owns the memory.
void Versions::write_below(ValueId child, ValueId old_child) {
  for (ValueId parent = parent_[child]; parent != none_id; child = parent, parent = parent_[child]) {
    ValueId old_parent = current_[parent];
    std::vector<NodeId> chain;  // from the child to the parent
    for (ValueId v = old_child; v != old_parent;) {
      const Node& n = maker(to_, v);
      bool view = n.op == Op::view && !n.attributes.map("map").fill;
      if (!view && n.op != Op::reshape) fail(Code::unsupported, "it writes in place through a view that is not followed");
      chain.push_back(to_.values[v].producer);
      v = n.in[0];
    }
    Handle value(&to_, current_[child]);
    for (NodeId n : chain) {
      const Node step = to_.nodes[n];
      Handle below(&to_, step.in[0]);
      value = step.op == Op::reshape ? reshape(value, below.dims()) : update(below, step.attributes.map("map"), value);
    }
    current_[parent] = value.id();
    old_child = old_parent;
  }
}

}  // namespace ingot::lower
