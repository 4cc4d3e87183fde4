#include "lower/expand/leaves.h"

#include "base/error.h"
#include "ops/complex.h"

namespace ingot::lower {

using ir::ValueId;

namespace {

std::vector<int64_t> order_in_memory(const ir::Type& given, std::vector<int64_t> order) {
  if (is_complex(given.dtype) && !order.empty()) order.push_back(given.rank());
  return order;
}

std::string input_name(const Expansion& e, ValueId leaf) {
  for (const ir::Input& i : e.from.inputs) {
    if (i.value == leaf) return i.name;
  }
  fail(Code::internal, "value {} is not an input", leaf);
}

// A new value for an input's memory.
ValueId in_memory_order(Expansion& e, const std::string& name, ValueId value) {
  for (const ir::Input& i : e.to.inputs) {
    if (i.name == name && !i.order.empty()) return ir::permute(ir::Handle(&e.to, value), ir::Axes(i.order.begin(), i.order.end())).id();
  }
  return value;
}

// What is written, with the sizes of the memory it is written to. Torch may know them as other symbols (`out=` of dynamic sizes): each call checks that
// they are equal.
ValueId with_sizes_of_memory(Expansion& e, const ir::Output& o) {
  const ValueId leaf = e.to.written_by(o);
  if (leaf == ir::none_id) return o.value;
  const ir::Type memory = e.to.type(leaf), made = e.to.type(o.value);
  if (memory == made || memory.dtype != made.dtype || memory.rank() != made.rank()) return o.value;
  ir::AffineMap map{memory.dims, {}, std::nullopt};
  for (uint32_t i = 0; i < memory.dims.size(); ++i) {
    map.axes.push_back({0, {{i, 1}}});
    if (memory.dims[i] == made.dims[i]) continue;
    e.to.checks.push_back({memory.dims[i], made.dims[i], ir::Check::equal, e.to.producer(o.value).origin, fmt::format("what is written to \"{}\" has its sizes", o.name)});
  }
  return ir::view(ir::Handle(&e.to, o.value), std::move(map)).id();
}

void add_output(Expansion& e, ir::Output o) {
  o.order = order_in_memory(e.to.type(o.value), std::move(o.order));
  if (is_complex(e.to.type(o.value).dtype)) o.value = ops::interleaved(ir::Handle(&e.to, o.value)).id();
  if (o.to == ir::Output::To::size) o.value = ir::reshape(ir::cast(ir::Handle(&e.to, o.value), ir::DType::i64), {}).id();
  if (o.to == ir::Output::To::input) o.value = in_memory_order(e, o.name, o.value);
  o.value = with_sizes_of_memory(e, o);
  e.to.outputs.push_back(std::move(o));
}

}  // namespace

ir::Type type_in_memory(const ir::Type& given, const std::vector<int64_t>& order) {
  ir::Type out = given;
  for (size_t i = 0; i < order.size(); ++i) out.dims[i] = given.dims[static_cast<size_t>(order[i])];
  if (is_complex(given.dtype)) {
    out.dtype = ir::part_type(given.dtype);
    out.dims.push_back(2);
  }
  return out;
}

ValueId read_from_memory(Expansion& e, ValueId leaf, const std::vector<int64_t>& order, const ir::Type& given) {
  ir::Handle x(&e.to, leaf);
  if (!order.empty()) {
    ir::Axes back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<ir::Axis>(i);
    x = ir::permute(x, back);
  }
  return (is_complex(given.dtype) ? ops::of_interleaved(x) : x).id();
}

void expand_input(Expansion& e, ValueId leaf) {
  const ir::Value& given = e.from.values[leaf];
  const std::vector<int64_t> order = order_in_memory(given.type, given.order);
  const ValueId input = e.to.add_input(given.name, type_in_memory(given.type, given.order), order);
  e.values.define(leaf, read_from_memory(e, input, order, given.type));
}

void expand_weight(Expansion& e, ValueId leaf) {
  const ir::Weight* given = e.from.weight_of(leaf);
  if (given == nullptr) fail(Code::internal, "weight {} is not listed", e.from.values[leaf].name);
  const ir::Type& type = e.from.type(leaf);
  ir::Weight weight = *given;
  weight.order = order_in_memory(type, given->order);
  e.values.define(leaf, read_from_memory(e, e.to.add_weight(weight, type_in_memory(type, given->order)), weight.order, type));
}

void expand_outputs(Expansion& e) {
  for (const ir::Output& o : e.from.outputs) {
    if (o.to != ir::Output::To::size || e.data == SizesFromData::allowed) add_output(e, {e.values.read(o.value), o.name, o.order, o.to});
  }
  for (ValueId leaf : e.values.written_leaves()) {
    const ir::Weight* w = e.from.weight_of(leaf);
    add_output(e, {e.values.read(leaf), w != nullptr ? w->name : input_name(e, leaf), {}, w != nullptr ? ir::Output::To::weight : ir::Output::To::input});
  }
}

}  // namespace ingot::lower
