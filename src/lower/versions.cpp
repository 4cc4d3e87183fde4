#include "lower/versions.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "ir/reshape_groups.h"
#include "lower/rewrite.h"
#include "ops/complex.h"

namespace ingot::lower {

using namespace ir;

namespace {

constexpr std::string_view views =
    " view transpose permute slice select expand unsqueeze squeeze t alias detach split chunk unbind split_with_sizes unflatten expand_as view_as diagonal movedim narrow swapaxes "
    "unfold numpy_T mT swapdims dropout feature_dropout alpha_dropout feature_alpha_dropout lift_fresh detach_ broadcast_to mH adjoint linalg_diagonal unsafe_split unsafe_chunk "
    "as_strided real imag view_as_real view_as_complex conj _conj _neg_view ";
constexpr std::string_view perhaps = " reshape contiguous flatten type_as reshape_as resolve_conj resolve_neg ";
// Views of another type than their operand's.
constexpr std::string_view of_parts = " real imag view_as_real view_as_complex ";

bool is_listed(std::string_view name, std::string_view list) { return list.find(fmt::format(" {} ", name)) != std::string_view::npos; }

// "slice" of "aten.slice.Tensor"
std::string_view name_of_target(std::string_view target) {
  size_t first = target.find('.') + 1;
  return target.substr(first, target.find('.', first) - first);
}

bool reads_bits(const Node& node) { return node.attributes.string("target") == "aten.view.dtype"; }

AffineMap identity_map(const Dims& dims) { return expand_map(dims, dims); }

// No element is read twice, as far as is known. Each axis of the view takes part in it.
bool is_injective(const AffineMap& map) {
  return std::all_of(map.axes.begin(), map.axes.end(), [&](const AffineMap::Axis& axis) {
    std::vector<AffineMap::Term> terms = axis.terms;
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return std::abs(a.coefficient) < std::abs(b.coefficient); });
    Dim reach = 0;  // of the terms with smaller steps
    for (const AffineMap::Term& t : terms) {
      const Dim step = std::abs(t.coefficient);
      if (&t != &terms.front() && !(reach.is_constant() && reach.value() < step.value())) return false;
      reach += step * (map.dims[t.axis] - Dim(1));
    }
    return true;
  });
}

}  // namespace

std::string functional_name(const std::string& target) {
  size_t first = target.find('.'), second = target.find('.', first + 1);
  if (first == std::string::npos || second == std::string::npos || second < first + 3 || target[second - 1] != '_' || target[first + 1] == '_') return {};
  return target.substr(0, second - 1) + target.substr(second);
}

Versions::Versions(const Graph& from, Graph& to, Expand expand) : from_(from), to_(to), expand_(std::move(expand)) {
  size_t n = from.values.size();
  current_.assign(n, none_id);
  parent_.assign(n, none_id);
  link_.assign(n, Link::none);
  version_.assign(n, 0);
  last_read_.assign(n, 0);
  written_.assign(n, false);
  lost_.assign(n, false);
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

// Of a tensor to its own type: `to` gives the tensor itself, unless it is told more than where it is already.
Versions::Link Versions::link_of_conversion(const Node& node) {
  if (const ir::Attribute* copy = node.attributes.find("copy"); copy != nullptr && copy->value == ir::Attribute(true).value) return Link::none;
  const ir::Attribute* format = node.attributes.find("memory_format");
  const bool keeps = format == nullptr || format->is_none() || format->value == ir::Attribute(std::string("preserve_format")).value;
  const ir::Attribute* device = node.attributes.find("device");
  return keeps && (device == nullptr || device->is_none()) && node.in.size() == 1 ? Link::view : Link::maybe;
}

void Versions::note_views(NodeId id) {
  const Node& node = from_.nodes[id];
  if (node.in.empty()) return;
  std::string_view name = name_of_target(node.attributes.string("target"));
  Link link = name == "to" ? link_of_conversion(node) : is_listed(name, views) ? Link::view : is_listed(name, perhaps) ? Link::maybe : Link::none;
  // What an in-place overload returns is the tensor itself.
  if (link == Link::none && name.size() > 1 && name.ends_with('_') && !name.starts_with('_')) link = Link::view;
  if (link == Link::none) return;
  for (ValueId v : node.out) {
    if (from_.type(v).dtype != from_.type(node.in[0]).dtype && !is_listed(name, of_parts) && !reads_bits(node)) continue;  // a conversion copies
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
  bool others = false, certain = true, follows = true;
  for (ValueId v = 0; v < parent_.size(); ++v) {
    if (current_[v] == none_id || root(v) != base) continue;
    if (v != self && read_after(v, id)) others = true;
    if (link_[v] == Link::maybe) certain = false;
  }
  // A copy instead of a view is nobody else's memory, and has no element twice.
  for (ValueId v = self; v != base; v = parent_[v]) follows = follows && link_[v] == Link::view;
  written_[base] = true;
  // What is written to the caller's memory or a buffer is read again by the caller.
  if (from_.nodes[from_.values[base].producer].op != Op::call && self != base) others = true;
  if (others && !certain) fail(Code::unsupported, "it writes in place to a tensor that may or may not share memory with another one (reshape or contiguous)");
  if (self == base) {
    current_[base] = value.id();
    ++version_[base];
    return;
  }
  const std::string& target = node.attributes.string("target");
  const bool uniform = target == "aten.fill_.Scalar" || target == "aten.zero_.default";  // what eager takes for repeated elements
  std::optional<ValueId> whole;
  if (follows) whole = written_through(read(self), read(base), value, uniform);
  if (follows && !whole && !lost_[base]) {  // a view that was written itself is seen as one again
    for (ValueId v = self; v != base; v = parent_[v]) version_[v] = UINT32_MAX;
    whole = written_through(read(self), read(base), value, uniform);
  }
  current_[self] = value.id();
  if (whole) {
    current_[base] = *whole;
    version_[self] = ++version_[base];
    return;
  }
  if (others) fail(Code::unsupported, "it writes in place through a view that is not followed");
  lost_[base] = true;
}

std::vector<ValueId> Versions::written_leaves() const {
  std::vector<ValueId> out;
  for (ValueId v = 0; v < written_.size(); ++v) {
    if (written_[v] && from_.nodes[from_.values[v].producer].op != Op::call) out.push_back(v);
  }
  return out;
}

// The new value of `base` after `value` was written to a view of it; nullopt where what `view` is of `base` does not show. `uniform`: it is one number.
std::optional<ValueId> Versions::written_through(ValueId view, ValueId base, Handle value, bool uniform) {
  if (is_complex(to_.type(base).dtype)) return written_to_parts(view, base, value, uniform);
  AffineMap map = identity_map(value.dims());
  // Puts what is written so far into the tensor `below`; `map` is a view of it.
  auto put = [&](ValueId below) {
    const Dims dims = to_.type(below).dims;
    for (size_t axis = 0; axis < map.dims.size(); ++axis) {
      bool moves = map.dims[axis] == Dim(1);
      for (const AffineMap::Axis& a : map.axes) moves = moves || std::any_of(a.terms.begin(), a.terms.end(), [&](const auto& t) { return t.axis == axis; });
      if (moves) continue;
      if (!uniform) {
        fail(Code::unsupported, "it writes in place to a tensor with several elements at one place in memory (expand); write to a copy of it: .clone()");
      }
      if (known_less(0, map.dims[axis], to_.symbols) != Truth::yes) fail(Code::unsupported, "it writes in place to an expanded tensor that may be empty");
      value = ir::view(value, slice_map(value.dims(), static_cast<int64_t>(axis), 0, 1, 1));
      map.dims[axis] = 1;
    }
    if (!uniform && !is_injective(map)) fail(Code::unsupported, "it writes in place to windows that may overlap");
    return is_identity(map, dims) ? value.id() : update(Handle(&to_, below), map, value).id();
  };
  for (ValueId v = view; v != base;) {
    const Node n = maker(to_, v);
    if (n.op == Op::view && !n.attributes.map("map").fill) {
      map = compose(map, n.attributes.map("map"));
    } else if (auto split = n.op == Op::reshape ? split_map(to_.type(n.in[0]).dims, to_.type(v).dims) : std::nullopt) {
      map = compose(map, *split);
    } else if (n.op == Op::reshape) {
      const Dims below = to_.type(n.in[0]).dims;
      value = reshape(Handle(&to_, put(v)), below);
      map = identity_map(below);
    } else if ((n.op == Op::bitcast || n.op == Op::cast) && size_of(to_.type(n.in[0]).dtype) == size_of(to_.type(v).dtype)) {  // a view of the bits
      value = bitcast(value, to_.type(n.in[0]).dtype);
    } else {
      return std::nullopt;
    }
    v = n.in[0];
  }
  return put(base);
}

// The same of a complex tensor and a complex view.
std::optional<ValueId> Versions::written_to_parts(ValueId view, ValueId base, Handle value, bool uniform) {
  if (!is_complex(to_.type(view).dtype)) return std::nullopt;
  const ops::Complex from = ops::parts(Handle(&to_, view)), whole = ops::parts(Handle(&to_, base)), written = ops::parts(value);
  const std::optional<ValueId> re = written_through(from.re.id(), whole.re.id(), written.re, uniform);
  const std::optional<ValueId> im = written_through(from.imaginary().id(), whole.imaginary().id(), written.imaginary(), uniform);
  if (!re || !im) return std::nullopt;
  return ops::joined({Handle(&to_, *re), Handle(&to_, *im)}).id();
}

}  // namespace ingot::lower
